"""Running the service: settings, the first key, and a server that stops gracefully."""

import socket
import sys

import uvicorn

from crowdfield.errors import InputError
from crowdfield.service import logs
from crowdfield.service.app import create_app
from crowdfield.service.configuration import Configuration
from crowdfield.service.database import permission_warnings
from crowdfield.service.heads import BoundedHeads

# Requests in progress have this long to finish after Ctrl+C or SIGTERM; event streams end at once.
GRACE_SECONDS = 10
SWITCH_SECONDS = 0.001
# Long enough that a client which asks now and then does not write to a connection that is being closed.
KEEP_ALIVE_SECONDS = 30


def run(configuration: Configuration) -> None:
    """Run the server until it is stopped."""
    settings = configuration.settings
    host = settings.host
    # The socket comes first: if the port is in use, the error must come before anything is created.
    listening = _listen(host, settings.port)
    app = create_app(settings)
    logs.configure(settings.log_level.upper())
    lines = [*configuration.lines(), *(f"note: {warning}" for warning in permission_warnings(settings.database))]
    print("\n".join(lines), file=sys.stderr)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    first = app.state.service.keys.create_first()
    if first is None:
        print(f"crowdfield runs at {address}", file=sys.stderr)
    else:
        # Printed once and stored nowhere; browsers do not send the part after # to servers, so no log has it.
        print(
            f"crowdfield runs at {address}\n\nThe admin key of this workspace, shown only now:\n  {first}\n"
            f"Open the page with it:\n  {address}#key={first}\n",
            file=sys.stderr,
        )
    sys.stderr.flush()
    # How long a thread may hold the interpreter lock: incoming reports wait less for readers.
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        # The service itself reads X-Forwarded-For, and only from proxies that CROWDFIELD_TRUSTED_PROXIES names.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http=BoundedHeads,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InputError(f"cannot bind to {host}:{port}: {error.strerror}. Choose another with --port.") from error
    return listening
