"""A small model, and a server of it on a port of this machine that answers plain requests."""

import http.client
import json
import threading
import time
from typing import Any

import pytest

import unskew

NEEDED = ("fastapi", "uvicorn", "prometheus_client")


class Server:
    """A server in a thread of this process; `ask` returns status and answer."""

    def __init__(self, folder, log=None, listening=None):
        import uvicorn

        from unskew.serve.app import create_app
        from unskew.serve.limits import SlowClientsAreCutOff
        from unskew.serve.live import Live
        from unskew.serve.shown import ShownLog

        self.live = Live(folder)
        self.shown = None if log is None else ShownLog(log)
        app: Any = create_app(self.live, self.shown)
        config = uvicorn.Config(app, port=0, http=SlowClientsAreCutOff, ws="none", log_level="critical")
        self.server = uvicorn.Server(config)
        sockets = None if listening is None else [listening]
        self.thread = threading.Thread(target=self.server.run, args=(sockets,), daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def ask(self, path, body=None, raw=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        connection.request("GET" if data is None else "POST", path, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if "json" in (answer.getheader("content-type") or "") else text.decode()

    def stop(self):
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture(scope="session")
def served_model():
    for name in NEEDED:
        pytest.importorskip(name, reason="needs unskew[serve]")
    world = unskew.simulate(60, 30, density=0.3, seed=0)
    return unskew.make("dce-bayes", sweeps=40).fit(world.log)


@pytest.fixture
def serve(served_model, tmp_path):
    """Start servers of the model, which end with the test."""
    served_model.save(tmp_path / "model")
    running: list[Server] = []

    def start(log=None, listening=None, folder="model"):
        running.append(Server(tmp_path / folder, log, listening))
        return running[-1]

    yield start
    for server in running:
        server.stop()
