"""The lines of docs/service.md that start, change and remove a map, run as they are written."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.service.served import serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_documented_lines_start_change_and_remove_a_map(tmp_path):
    section = PAGE.read_text().partition("## Starting a map")[2]
    lines = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]
    commands = re.findall(r"curl (?:.*\\\n)*.*\n", lines)
    assert len(commands) == 7
    with serving(tmp_path) as served:
        told = []
        for command in commands:
            here = command.replace("http://localhost:8000", served.url)
            run = subprocess.run(
                ["bash", "-c", f"KEY={served.keys['admin']}; {here.strip()} --silent --show-error --fail-with-body"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == 0, (command, run.stdout, run.stderr)
            told.append(run.stdout)
        assert '"flood"' in told[0] and '"stored":1' in told[1] and "Flood in the south" in told[2]
        assert '"access":"keys"' in told[3] and '"scales":["harm-reversed","harm"]' in told[3]
        assert '"states":["dry","flooded","cut off"]' in told[4] and '"archived":true' in told[5]
        with served.client("admin") as client:
            assert client.get("/situations").json() == []
