"""A served model answers as it does in Python, goes on whatever happens to its folder, and refuses in a sentence."""

import errno
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unskew
from unskew.errors import DataError
from unskew.serve.shown import read_shown

REQUESTS = 10_000 if os.environ.get("UNSKEW_LONG") else 400


def test_answers_are_those_of_the_model(serve, served_model):
    server = serve()
    status, found = server.ask("/predict", {"users": [3, "5"], "items": [1, 2], "return_std": True})
    values, std = served_model.predict([3, 5], [1, 2], return_std=True)
    assert (status, found["predictions"], found["std"]) == (200, values.tolist(), std.tolist())
    _, found = server.ask("/recommend", {"users": [3, "5", 3], "k": 4, "by": "liking", "filter_items": [0]})
    expected = served_model.recommend([3, 5], 4, by="liking", filter_items=[0])
    assert [one["user"] for one in found["lists"]] == [3, "5"]
    assert [row["item"] for one in found["lists"] for row in one["items"]] == expected["item_id"].to_pylist()
    assert [row["position"] for one in found["lists"] for row in one["items"]] == expected["rank"].to_pylist()
    _, found = server.ask("/recommend", {"candidates": {"3": [1, 2, 4], "7": [9]}, "exclude_seen": False})
    assert [{row["item"] for row in one["items"]} for one in found["lists"]] == [{1, 2, 4}, {9}]
    _, found = server.ask("/similar", {"items": [2], "k": 3})
    expected = served_model.similar(2, k=3)["similar_item_id"].to_pylist()
    assert [row["similar_item_id"] for row in found["similar"]] == expected


def test_the_image_copies_what_it_may_and_asks_the_port_that_it_serves():
    root = Path(__file__).parents[2]
    text, let_in = (root / "Dockerfile").read_text(), (root / ".dockerignore").read_text().split()
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()]
    assert {"src", "constraints.txt"} < set(copied)
    assert all((root / name).exists() and f"!{name}" in let_in for name in copied)
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)
    assert f"http://127.0.0.1:{port}/health" in text
    assert f'"--port", "{port}"' in text


def test_every_list_is_logged_with_its_chances_and_learned_from_by_the_guides_lines(
    serve, served_model, tmp_path, monkeypatch
):
    server, clicks = serve(tmp_path / "shown"), []
    for user in range(60):
        for explore in (None, 0.0, 0.2):
            asked = {"users": [user], "k": 5, "by": "thompson", "explore": explore}
            found = server.ask("/recommend", asked)[1]
            assert found["policy"] == ("thompson explore=0.2" if explore else "thompson")
            assert all(0 < row["pscore"] < 1 for row in found["lists"][0]["items"]), found
            clicks += [(found["request"], row["item"]) for row in found["lists"][0]["items"] if row["score"] > 0.8]
    sure = server.ask("/recommend", {"users": [3], "k": 2, "by": "liking"})[1]
    server.stop()
    table, _ = read_shown(tmp_path / "shown")
    assert table["pscore"].to_pylist()[-2:] == [1, 1]
    assert table["request"].to_pylist()[-1] == sure["request"]
    with pytest.raises(DataError, match="no column that is known to hold ratings"):
        unskew.read_log(tmp_path / "shown")
    requests, items = zip(*clicks, strict=True)
    pyarrow.csv.write_csv(pa.table({"request": requests, "item": items}), tmp_path / "clicks.csv")
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[2] / "docs/guides/serve.md").read_text()
    (lines,) = (block.split("```")[0] for block in guide.split("```python\n") if "read_shown" in block)
    monkeypatch.setattr(unskew, "fit", lambda log: unskew.make("bayes", sweeps=25).fit(unskew.read_log(log)))
    names: dict[str, Any] = {"unskew": unskew}
    exec(lines, names)
    assert sum(names["rows"]["clicked"].to_pylist()) == len(clicks)
    assert names["model"].log.target == "click"


def test_new_users_get_lists_by_their_ratings_and_are_not_kept(serve, served_model):
    server = serve()
    people = [{"user": "ann", "items": [1, 4], "ratings": [1, 0]}, {"user": "bob", "items": [2], "ratings": [1]}]
    found = server.ask("/fold-in", {"new_users": people, "k": 3, "by": "liking"})[1]
    frame = pa.table({"user_id": ["ann", "ann", "bob"], "item_id": [1, 4, 2], "rating": [1, 0, 1]})
    expected = served_model.fold_in(frame).recommend(["ann", "bob"], 3, by="liking")
    assert [row["item"] for one in found["lists"] for row in one["items"]] == expected["item_id"].to_pylist()
    assert "'ann' is not in the log" in server.ask("/predict", {"users": ["ann"], "items": [1]})[1]["error"]


def test_health_metrics_and_reference_say_what_there_is(serve):
    server = serve()
    for _ in range(3):
        server.ask("/predict", {"users": [3], "items": [1]})
    _, health = server.ask("/health")
    assert health["status"] == "ok"
    assert (health["users"], health["items"], health["refused"]) == (60, 30, None)
    _, text = server.ask("/metrics")
    assert 'unskew_requests_total{path="/predict",status="200"} 3.0' in text
    assert 'unskew_request_seconds_count{path="/predict"} 3.0' in text
    _, page = server.ask("/docs")
    assert "POST /fold-in" in page
    assert "http" not in page  # nothing is loaded from elsewhere
    _, schema = server.ask("/openapi.json")
    assert set(schema["paths"]) == {*("/health", "/metrics", "/docs", "/predict", "/recommend", "/fold-in", "/similar")}


REFUSED = {
    ("/predict", '{"users": [1], "items": [1, 2]}'): (422, "There are 1 users for 2 items"),
    ("/predict", '{"users": [1], "items": [1], "as": 3}'): (422, "as: Extra inputs are not permitted"),
    ("/predict", '{"users": ["\\ud800"], "items": [1]}'): (422, "users.0: an id is a whole number or a text"),
    ("/predict", "{"): (422, "the body: it must be a JSON object, sent as Content-Type: application/json"),
    ("/predict", "[]"): (422, "the body: it must be a JSON object"),
    ("/recommend", '{"users": [1], "by": "stars"}'): (422, "by must be 'choice' or 'liking'"),
    ("/recommend", '{"users": [1], "candidates": {"1": [2]}}'): (422, "leave users and items out"),
    ("/recommend", "{}"): (422, "nobody to make a list for"),
    ("/fold-in", '{"new_users": [{"user": 99, "items": [1], "ratings": [1, 0]}]}'): (422, "1 items and 2 ratings"),
    ("/fold-in", '{"new_users": [{"user": 3, "items": [1], "ratings": [1]}]}'): (422, "in the log already"),
    ("/similar", "{}"): (422, "similar needs items or users"),
    ("/nothing", "{}"): (404, "Not Found"),
    ("/health", "{}"): (405, "Method Not Allowed"),
}


def test_refusals_are_one_sentence(serve, monkeypatch):
    server = serve()
    monkeypatch.setattr("unskew.serve.app.MOST_CELLS", 30 * 32 * 2)  # two drawn lists of 30 items
    assert server.ask("/recommend", {"users": [1, 2, 3], "by": "liking"})[0] == 200
    drawn = server.ask("/recommend", {"users": [1, 2, 3], "by": "thompson"})
    assert drawn == (422, {"error": "3 users are too many for one request: ask for at most 2."})
    for (path, body), (status, words) in REFUSED.items():
        found = server.ask(path, raw=body.encode())
        assert found[0] == status, (path, body, found)
        assert words in found[1]["error"], (path, body, found)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.sampled_from([-1, 60, 2**63, 10**30, "", "\0", "\ud800", "9" * 2000, "liking", "thompson", "raise"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=6,
)  # fmt: skip
LISTS = {"k": 3, "by": "thompson", "explore": 0.1}
ASKED = {
    "/predict": {"users": [3, "5"], "items": [1, 2], "return_std": True, "liked_from": 1},
    "/recommend": LISTS | {"users": [7, "8"], "items": [1, 2, 3, 4], "filter_items": [2]},
    "/fold-in": LISTS | {"new_users": [{"user": "ann", "items": [1, 2], "ratings": [1, 0]}]},
    "/similar": {"items": [1, 2], "k": 3},
    "/health": {},
}
KEYS = sorted({"candidates", "other"}.union(*ASKED.values()))
BODIES = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=2), ANYTHING, st.binary(max_size=20).map(bytes)
)


def test_fuzzed_requests_are_answered_without_a_failure(serve, tmp_path):
    """Requests that would be answered, with some of them replaced by anything, and anything at all."""
    server, statuses = serve(tmp_path / "shown"), set()

    @settings(max_examples=REQUESTS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(sorted(ASKED)), BODIES)
    def send(path, drawn):
        whole = ASKED[path] | drawn if isinstance(drawn, dict) else drawn
        status, found = server.ask(path, raw=drawn if isinstance(drawn, bytes) else json.dumps(whole).encode())
        statuses.add(status)
        assert status < 500, (path, drawn, found)
        assert "Traceback" not in json.dumps(found)
        assert (status == 200) == ("error" not in found)

    send()
    assert server.ask("/recommend", raw=b"[" * 5000)[0] == 400
    assert {200, 422} <= statuses


def test_answers_on_one_connection_do_not_wait_for_confirmations(serve):
    server, times = serve(listening=socket.create_server(("127.0.0.1", 0))), []
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for _ in range(30):
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    assert min(times[1:]) < 0.03  # the system holds a confirmation back for 40 ms


def test_large_requests_are_refused_and_slow_ones_cut_off(serve, monkeypatch):
    monkeypatch.setattr("unskew.serve.limits.SECONDS", 0.5)
    server = serve()
    status, found = server.ask("/predict", raw=b" " * (2**20 + 1))
    assert (status, "larger than 1,048,576 bytes" in found["error"]) == (413, True)
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    for sent, answer in (
        (b"GET /heal", b""),  # never a whole line
        (head + b"Content-Length: 50\r\n\r\n{", b""),  # never a whole body
        (head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk, b"HTTP/1.1 413"),  # larger than announced
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
            client.sendall(sent)
            try:
                assert client.recv(12) == answer
                while client.recv(65536):
                    pass
            except ConnectionResetError:
                assert answer == b""
    assert server.ask("/health")[0] == 200


def test_a_model_is_swapped_without_a_request_lost_and_a_broken_one_refused(serve, served_model, tmp_path, monkeypatch):
    monkeypatch.setattr("unskew.serve.live.CHECKED_EVERY", 0.05)
    (tmp_path / "current").symlink_to("model")
    server, folder = serve(folder="current"), tmp_path / "model"
    first = server.ask("/health")[1]["model"]
    names, failures, stop = set(), [], threading.Event()

    def load():
        while not stop.is_set():
            status, found = server.ask("/predict", {"users": [3], "items": [1]})
            names.add(found.get("model"))
            failures.extend([found] * (status != 200))

    asking = threading.Thread(target=load)
    asking.start()
    served_model.more_sweeps(6).save(folder)
    until(lambda: server.ask("/health")[1]["model"] != first)
    second = server.ask("/health")[1]["model"]
    (folder / "weights.safetensors").write_bytes(b"broken")
    until(lambda: server.ask("/health")[1]["refused"])
    health = server.ask("/health")[1]
    assert (health["status"], health["model"]) == ("old model", second)
    assert "weights.safetensors" in health["refused"]
    assert server.ask("/predict", {"users": [3], "items": [1]})[0] == 200
    shutil.rmtree(folder)
    until(lambda: "no such folder" in str(server.ask("/health")[1]["refused"]))
    served_model.save(tmp_path / "other")
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "link").rename(tmp_path / "current")
    until(lambda: server.ask("/health")[1]["model"] == first)
    stop.set()
    asking.join()
    assert not failures
    assert names == {first, second}
    assert server.ask("/health")[1]["status"] == "ok"


def test_lists_that_cannot_be_logged_are_not_shown(serve, tmp_path, monkeypatch):
    """A disk that is full, in the middle of a line, leaves the log whole."""
    server, write, room = serve(tmp_path / "shown"), os.write, [1e9]

    def limited(file, data):
        if file == server.shown._file and room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= len(data)
        return write(file, data if room[0] >= 0 else data[:9])

    monkeypatch.setattr("unskew.serve.shown.os.write", limited)
    for room[0], expected in ((1e9, 200), (99, 503), (1e9, 200)):
        status, found = server.ask("/recommend", {"users": [3], "k": 2})
        assert status == expected
        assert status == 200 or found["error"].endswith("cannot be written: no space left on device.")
    table, torn = read_shown(tmp_path / "shown")
    assert (len(table), torn) == (4, 0)


def until(holds, seconds=30):
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def post(port, body):
    address, kind = f"http://127.0.0.1:{port}/recommend", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), kind), timeout=60) as answer:
        return len(json.load(answer)["lists"])


def test_the_command_ends_gracefully_with_what_it_has_answered(served_model, tmp_path):
    served_model.save(tmp_path / "model")
    words = [sys.executable, "-m", "unskew", "serve", tmp_path / "model", "--port", "0", "--log", tmp_path / "shown"]
    process = subprocess.Popen([*words, "--json"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = int(process.stderr.readline().partition("127.0.0.1:")[2].partition(";")[0])
    assert post(port, {"users": [3], "k": 2}) == 1
    slow = {"users": list(range(60)), "k": 30, "by": "thompson", "explore": 0.5}
    with ThreadPoolExecutor(1) as asking:
        lists = asking.submit(post, port, slow)
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
        assert lists.result() == 60
    assert "Traceback" not in errors
    table, torn = read_shown(tmp_path / "shown")
    assert torn == 0
    assert json.loads(out)["rows"] == len(table) > 2


def test_a_port_that_is_taken_or_an_extra_that_is_missing_is_a_sentence(run, served_model, tmp_path, monkeypatch):
    served_model.save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run("serve", tmp_path / "model", "--port", port, code=2).output
    assert f"error: 127.0.0.1:{port} cannot be listened on" in refused
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused = run("serve", tmp_path / "model", code=2).output
    assert refused == "error: `unskew serve` needs uvicorn: pip install 'unskew[serve]'.\n"
