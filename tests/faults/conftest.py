"""Children that may die, hang or run out of room without harm to the tests, and how hard to try."""

import faulthandler
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import unskew

LONG = bool(os.environ.get("UNSKEW_LONG"))
settings.register_profile(
    "faults",
    max_examples=2500 if LONG else 100,
    derandomize=not LONG,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def long():
    """Whether this is the long run (UNSKEW_LONG=1), which tries everything more often."""
    return LONG


tried, done = Counter[str](), Counter[str]()  # in this process: a contained child prints what it has tried


@pytest.fixture(scope="session")
def contained(forked):
    """Does something in a child that must end well, in time and within `gigabytes` more memory than there is now.

    If not, what stands in the file `about` is shown. A share of `at_least` of what is tried must not be refused.
    """

    def run(
        work,
        *,
        gigabytes=2.0,
        seconds=6000 if LONG else 100,
        about=None,
        at_least=0.0,
    ):
        def limited():
            import resource

            faulthandler.enable(open(2, "w", closefd=False))  # noqa: SIM115 (as long as the child lives)
            most = _megabytes("VmSize") + int(gigabytes * 1000)
            resource.setrlimit(resource.RLIMIT_AS, (most << 20, -1))
            work()
            for name, count in tried.items():
                print(f"{name}: {count:,} cases, of which {done[name]:,} worked and the others were refused")
                assert done[name] >= at_least * count, "cases that are all refused at the door try nothing behind it"

        process = forked(limited)
        process.join(seconds)
        if hangs := process.is_alive():
            process.kill()
            process.join()
        code = process.exitcode or 0
        if about is not None and (hangs or code):
            print(f"{about} was {about.read_bytes()[:5000]!r}")
        assert not hangs, f"it hangs: not done after {seconds:g} s"
        assert code >= 0, f"it crashed: {signal.Signals(-code).name}"
        assert code == 0, "see what the child printed"

    return run


@pytest.fixture(scope="session")
def works_or_refuses():
    """Does something, or has it refused in one line and answers None; any other exception is passed on."""

    def attempt(work, *words, **settings):
        tried[work.__name__] += 1
        try:
            outcome = work(*words, **settings)
        except unskew.UnskewError as error:
            sentence = str(error)
        else:
            done[work.__name__] += 1
            return outcome
        assert sentence
        assert "\n" not in sentence
        return None

    return attempt


def _megabytes(of):
    return int(Path("/proc/self/status").read_text().partition(f"{of}:")[2].split()[0]) // 1024


@pytest.fixture(scope="session")
def dying():
    """Something that is killed before a step of it that touches files in a folder: opens, renames, removes, syncs.

    Half of a file may have been written by then. Without such a step it ends well.
    """

    def wrapped(step, folder, work):
        left, sync = [step], os.fsync

        def die_if_due():
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        def watched(event, words):
            paths = [os.fsdecode(word) for word in words if isinstance(word, (str, bytes, Path))]
            if (event == "open" or event.startswith("os.")) and any(str(folder) in path for path in paths):
                die_if_due()

        def synced(descriptor):
            die_if_due()
            sync(descriptor)

        def work_watched():
            os.fsync = synced
            sys.addaudithook(watched)
            work()

        return work_watched

    return wrapped


@pytest.fixture(scope="session")
def commanded(run):
    """Give a command, which must end with this code; return what it printed."""
    return lambda *words, code=0: run(*words, code=code).output
