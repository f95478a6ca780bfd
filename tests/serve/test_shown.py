"""The log of what was shown holds every list that was answered, whole, after rotations, threads and kills."""

import os
import random
import threading
import time

import pyarrow as pa
import pytest

from unskew.errors import DataError, ParameterError
from unskew.serve.shown import COLUMNS, ShownLog, read_shown

KILLS = 50 if os.environ.get("UNSKEW_LONG") else 8


def rows(request, n=3, user=7):
    same = {"pscore": 0.25, "policy": "liking", "model": "m", "time": 1.5}
    return [{"request": request, "user": user, "item": f"i{k}", "position": k, **same} for k in range(1, n + 1)]


def test_lists_come_back_in_order_over_parts(tmp_path):
    log = ShownLog(tmp_path / "shown", part_bytes=1000)
    for number in range(20):
        log.append(rows(f"r{number}"))
    log.close()
    assert len(list((tmp_path / "shown").iterdir())) > 5
    table, torn = read_shown(tmp_path / "shown")
    assert (tuple(table.column_names), torn, len(table)) == (COLUMNS, 0, 60)
    assert table.slice(0, 3).to_pylist() == rows("r0")
    assert table["request"].to_pylist()[::3] == [f"r{number}" for number in range(20)]
    log = ShownLog(tmp_path / "two kinds")
    log.append(rows("é\n"))
    log.append(rows("b", user="x"))
    assert read_shown(log.folder)[0]["user"].to_pylist() == ["7"] * 3 + ["x"] * 3


@pytest.mark.parametrize("cut", range(1, 330, 7))
def test_a_list_that_was_cut_anywhere_is_left_out_whole_and_counted(tmp_path, cut):
    log = ShownLog(tmp_path / "shown")
    log.append(rows("kept"))
    log.append(rows("cut"))
    log.close()
    (part,) = (tmp_path / "shown").iterdir()
    data = part.read_bytes()
    part.write_bytes(data[: len(data) - cut])
    table, torn = read_shown(tmp_path / "shown")
    assert set(table["request"].to_pylist()) == {"kept"}
    assert len(table) == 3
    assert torn >= 1 or cut >= len(data) // 2


def test_clicks_are_those_of_their_request_user_and_item(tmp_path):
    log = ShownLog(tmp_path / "shown")
    for user in (7, 8):
        log.append(rows("r", user=user))  # one request of two users
    clicks = {"request": ["r", "r"], "item": ["i2", "i2"], "user": ["8", "7"], "clicked": [1, 0]}
    for given in (pa.table(clicks), pa.table({name: held[:1] for name, held in clicks.items()}).drop(["clicked"])):
        found = read_shown(tmp_path / "shown", given)[0]
        assert found["clicked"].to_pylist() == [0, 0, 0, 0, 1, 0]
    for bad, words in (
        ({"request": ["r"]}, "the clicks have no columns request and item, only request"),
        ({"request": ["r", "x"], "item": ["i1", "i2"]}, "1 of 2 clicks are of nothing that was shown, such as request"),
        (clicks | {"clicked": [2, 0]}, "row 1 of column 'clicked' holds 2"),
    ):
        with pytest.raises(DataError, match=words):
            read_shown(tmp_path / "shown", pa.table(bad))


def test_what_is_no_log_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no parts"):
        read_shown(tmp_path)
    (tmp_path / "shown-1.jsonl").write_text('{"request": 1}\n')
    with pytest.raises(DataError, match=r"line 1 of shown-1\.jsonl is no line of a served log"):
        read_shown(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="cannot be written"):
        ShownLog(tmp_path / "file")


def test_lists_of_threads_stay_apart_and_kills_lose_at_most_what_was_not_answered(forked, tmp_path):
    """Two threads of a process write and then answer, by a line in a pipe; the process is killed at any moment."""
    rng = random.Random(0)
    for kill in range(KILLS):
        folder = tmp_path / f"shown{kill}"
        read_end, write_end = os.pipe()

        def work(folder=folder, pipe=write_end):
            log = ShownLog(folder, part_bytes=200_000)

            def serve(thread):
                for number in range(10**9):
                    log.append(rows(f"{thread}-{number}", 400))  # several pages: a write that a kill may cut
                    os.write(pipe, f"{thread}-{number}\n".encode())

            threading.Thread(target=serve, args="a", daemon=True).start()
            serve("b")

        process = forked(work)
        os.close(write_end)
        reader, answered = os.fdopen(read_end), list[str]()
        answered.append(reader.readline().strip())
        time.sleep(rng.random() * 0.2)
        process.kill()
        process.join()
        answered += [line.strip() for line in reader if line.endswith("\n")]
        reader.close()
        table, torn = read_shown(folder)
        requests = table["request"].to_pylist()[::400]
        assert table["request"].to_pylist() == [request for request in requests for _ in range(400)]
        assert table["position"].to_pylist() == [*range(1, 401)] * len(requests)
        assert set(answered) <= set(requests)
        assert len(set(requests)) == len(requests)
        assert len(requests) <= len(set(answered)) + 2  # one of each thread may be written and not yet answered
        assert torn <= 400
