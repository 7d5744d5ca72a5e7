"""A process in the box can do nothing but read its file and answer; and whatever becomes of it is an error of ours."""

import os
import resource
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import crowdfield
from crowdfield.box import Limits, ask, probe
from crowdfield.errors import ReadingFailedError

SEARCHED = os.pathsep.join([str(Path(crowdfield.__file__).parents[1]), str(Path(__file__).parent)])


def run(tmp_path, task, limits=None, **arguments):
    given = tmp_path / "given"
    given.write_text("what is in the file")
    return ask(f"tasks:{task}", given, limits, shown="given", environment={"PYTHONPATH": SEARCHED}, **arguments)


def test_an_answer_comes_back_with_its_arrays_and_its_cost(tmp_path):
    answer = run(tmp_path, "echo", words="höhö")
    assert answer.header == {"words": "höhö", "content": "what is in the file"}
    assert np.array_equal(answer.arrays["numbers"], [[0, 1, 2], [3, 4, 5]])
    # Linux counts what the parent held when it started the child as the child's own peak.
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 0 < answer.seconds < 15 and 2**20 < answer.peak < max(2**29, parent + 2**26)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the layers are those of Linux")
def test_nothing_else_can_be_done_in_it(tmp_path, monkeypatch):
    secret, target, given = tmp_path / "a" / "secret", tmp_path / "a" / "target", tmp_path / "given"
    secret.parent.mkdir()
    for path in (secret, given):
        path.write_text("x")
    monkeypatch.setenv("CROWDFIELD_DATABASE", "postgresql://me:password@db/map")
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = ask(
            "crowdfield.box.probe:attempt",
            given,
            shown="given",
            port=server.getsockname()[1],
            secret=str(secret),
            target=str(target),
        )
    assert not any(answer.header["done"].values()), answer.header["done"]
    assert secret.exists() and not target.exists()
    assert "limits" in answer.layers and len(answer.layers) >= 2
    assert not [name for name in answer.header["environment"] if name in ("CROWDFIELD_DATABASE", "HOME", "USER")]


def test_the_probe_tells_an_operator_which_layers_hold(capsys):
    assert probe.main() == 0
    said = capsys.readouterr().out
    assert "layers: limits" in said and "could not open a socket" in said and "COULD" not in said


@pytest.mark.parametrize(
    ("task", "limits", "says"),
    [
        ("sleep", Limits(seconds=3), "took longer than 3 s"),
        ("spin", Limits(seconds=20, processor_seconds=1), "more than 1 s of processor time"),
        ("eat", None, "more than the 768 MB of memory"),
        ("crash", None, "ended unexpectedly"),
        ("vanish", None, "ended unexpectedly"),
        ("flood", Limits(answer=2**22), "more than can be handed over"),
        ("lie", None, "ended unexpectedly"),
        ("run_code", None, "ended unexpectedly"),
        ("fail", None, r"nobody foresaw \(KeyError, tasks.py:\d+\)"),
    ],
)
def test_however_the_process_ends_the_caller_gets_an_error_of_crowdfield(tmp_path, task, limits, says):
    spent = []
    began = time.monotonic()
    with pytest.raises(ReadingFailedError, match=f"^given: .*{says}") as caught:
        run(tmp_path, task, limits, watch=lambda seconds, peak: spent.append(peak))
    assert time.monotonic() - began < 20 and "secret" not in str(caught.value)
    assert spent[0] < 2**30
