"""Messages by e-mail, through the operator's own mail server."""

import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from crowdfield.service.settings import Settings
from crowdfield.service.webhooks import NotSent

SECONDS = 20.0
# The most districts that a message lists.
NAMED = 50


def send(settings: Settings, recipient: str, identity: str, body: dict[str, Any]) -> None:
    """Send a message; raises `NotSent` if the mail server does not accept it."""
    if settings.smtp_host is None:
        raise NotSent("no mail server is set (CROWDFIELD_SMTP_HOST)")
    try:
        with _connected(settings) as server:
            if settings.smtp_user is not None:
                server.login(settings.smtp_user, settings.smtp_password or "")
            server.send_message(compose(settings.sender, recipient, identity, body))
    except smtplib.SMTPRecipientsRefused:
        raise NotSent("the mail server refused the recipient", final=True) from None
    except (OSError, smtplib.SMTPException) as error:
        # The server's own text is left out: it may quote what was sent, the password included.
        raise NotSent(f"the mail server did not accept the message ({type(error).__name__})") from None


def _connected(settings: Settings) -> smtplib.SMTP:
    assert settings.smtp_host is not None
    if settings.smtp_security == "tls":
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(settings.smtp_host, settings.smtp_port, timeout=SECONDS, context=context)
    server = smtplib.SMTP(settings.smtp_host, settings.smtp_port, timeout=SECONDS)
    if settings.smtp_security == "starttls":
        server.starttls(context=ssl.create_default_context())
    return server


def compose(sender: str, recipient: str, identity: str, body: dict[str, Any]) -> EmailMessage:
    """The message as an e-mail. Sent again, it has the same Message-ID, so that mailboxes recognise duplicates."""
    message = EmailMessage()
    message["From"], message["To"] = sender, recipient
    message["Subject"] = subject(body)
    message["Message-ID"] = f"<{identity}@{sender.rpartition('@')[2]}>"
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(lines(body)) + "\n")
    return message


def subject(body: dict[str, Any]) -> str:
    """The subject of a message."""
    if body["type"] == "test":
        return f"{body['title']}: a test of an alert"
    areas = body["raised"] or body["cleared"]
    names = ", ".join(one["area"] for one in areas[:3]) + (", …" if len(areas) > 3 else "")
    what = body["state"] if body["raised"] else f"no longer {body['state']}"
    return f"{body['title']}: {what}: {names}"


def lines(body: dict[str, Any]) -> list[str]:
    """The text of a message."""
    state = body["state"]
    condition = f"more probable than {body['probability']:g} in more than {100 * body['share']:g} %"
    if "unit" in body:
        condition += f" (counted in {body['unit']})"
    out = [f"{body['title']} ({body['situation']}), map version {body['version']}, {body['created']}.", ""]
    if body["type"] == "test":
        return [*out, f"This is a test. You will get a message when {state} is {condition} of a district."]
    for name, words in (
        ("raised", f"{state} is now {condition} of:"),
        ("cleared", f"This is over (below {100 * body['clear']:g} %) in:"),
    ):
        areas = body[name]
        if areas:
            out += [words, *(_line(one, body.get("unit")) for one in areas[:NAMED])]
            out += [f"  and {len(areas) - NAMED} more"] if len(areas) > NAMED else []
            out.append("")
    return out


def _line(one: dict[str, Any], unit: str | None) -> str:
    counted = "" if unit is None else f" ({one['amount']:,.0f} {unit})"
    return f"  {one['area']}: {100 * one['share']:.1f} %{counted}"
