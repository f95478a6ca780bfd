"""The doors of a served model: what can be asked, in which words, and how it is answered."""

import json
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from typing import Annotated, Any

import anyio
import pyarrow as pa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictInt, StrictStr
from starlette.exceptions import HTTPException

from unskew._version import __version__
from unskew.asked import OnUnknown
from unskew.errors import LARGEST_SEED, ParameterError, UnskewError
from unskew.serve.limits import Bounded
from unskew.serve.live import Live, Loaded
from unskew.serve.shown import ShownLog
from unskew.store.atomic import reason

MOST_CELLS = 1 << 24  # pairs of a user and an item that one request may have scored
DRAWN = 32  # pairs scored in the time that the chance of one drawn takes
THREADS = 8
LOGGER = logging.getLogger(__name__)

Id = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | Annotated[StrictStr, Field(min_length=1, max_length=1000)]
Ids = Annotated[list[Id], Field(max_length=10_000)]


class Asked(BaseModel):
    """Refuse what is not asked for by name: a misspelled setting must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class Pairs(Asked):
    """Pairs to predict: the n-th user with the n-th item."""

    users: Ids
    items: Ids
    return_std: bool = False
    liked_from: FiniteFloat | None = None
    on_unknown: OnUnknown = "raise"


class ListRules(Asked):
    """How lists are made; see `Recommender.recommend`."""

    k: Annotated[int, Field(ge=1, le=1000)] = 10
    by: Annotated[str, Field(max_length=100)] | None = None
    exclude_seen: bool = True
    items: Ids | None = None
    filter_items: Ids | None = None
    explore: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None = None
    on_unknown: OnUnknown = "raise"


class ListsAsked(ListRules):
    """Whose lists: users, or candidates, items by user."""

    users: Annotated[list[Id], Field(max_length=1000)] | None = None
    candidates: Annotated[dict[str, Ids], Field(max_length=1000)] | None = None


class NewUser(Asked):
    """Somebody the model does not know, by a few ratings on the scale of its log."""

    user: Id
    items: Annotated[list[Id], Field(min_length=1, max_length=1000)]
    ratings: Annotated[list[FiniteFloat], Field(min_length=1, max_length=1000)]


class NewUsersAsked(ListRules):
    """Lists for new users, learned from their ratings without training; nothing of them is kept."""

    new_users: Annotated[list[NewUser], Field(min_length=1, max_length=100)]


class Alike(Asked):
    """Items like some items, or users like some users."""

    items: Annotated[list[Id], Field(max_length=1000)] | None = None
    users: Annotated[list[Id], Field(max_length=1000)] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] = 10


def create_app(live: Live, shown: ShownLog | None = None) -> Bounded:
    """Build the application that serves a model; lists go to the log of what is shown, if there is one."""
    registry = CollectorRegistry()
    rows = Counter("unskew_shown_rows", "Rows of the log of what was shown.", registry=registry)
    Gauge("unskew_model_refused", "1 if the folder as it stands was refused.", registry=registry).set_function(
        lambda: float(live.refused is not None)
    )
    Gauge("unskew_model_since", "When the model was taken up, in seconds since 1970.", registry=registry).set_function(
        lambda: live.current.since
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        watcher = threading.Thread(target=live.watch, name="model", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            live.stop()
            watcher.join()
            if shown is not None:
                shown.close()

    app = FastAPI(title="unskew", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)

    def health() -> Any:
        """Tell whether the server answers, by which model, and why a newer one was refused."""
        model, name, since = live.current
        facts = {"status": "ok" if live.refused is None else "old model", "model": name, "since": since}
        sizes = {"users": model.log.n_users, "items": model.log.n_items, "orders": model.part("prediction").orders}
        return facts | sizes | {"refused": live.refused}

    def predict(asked: Pairs) -> Any:
        """Predict the ratings of pairs; with return_std also how far the log leaves each open."""
        model, name, _ = live.current
        found = model.predict(
            as_texts(asked.users), as_texts(asked.items), return_std=asked.return_std, liked_from=asked.liked_from,
            on_unknown=asked.on_unknown,
        )  # fmt: skip
        values, std = found if asked.return_std else (found, None)
        return {"model": name, "predictions": values.tolist(), "std": None if std is None else std.tolist()}

    def recommend(asked: ListsAsked) -> Any:
        """Make a list for each user; with explore every item has its chance, `pscore`, and all of it is logged."""
        loaded = live.current
        names = loaded.model.log.names
        users, rules = distinct(asked.users or []), dict[str, Any]()
        if asked.users is not None:
            rules["users"] = as_texts(users)
        if asked.candidates is not None:
            users = list(asked.candidates)
            pairs = [(user, item) for user, items in asked.candidates.items() for item in items]
            columns = [as_texts([pair[side] for pair in pairs]) for side in (0, 1)]
            rules["candidates"] = pa.table(dict(zip((names.user, names.item), columns, strict=True)))
        if not rules:
            raise ParameterError("there is nobody to make a list for: give users, or candidates.")
        rules["on_unknown"] = asked.on_unknown
        return answered(loaded, users, asked, rules)

    def fold_in(asked: NewUsersAsked) -> Any:
        """Learn new users from a few ratings each, without training, and make their lists; nothing of them is kept."""
        loaded = live.current
        names, people = loaded.model.log.names, asked.new_users
        for person in people:
            if len(person.items) != len(person.ratings):
                raise ParameterError(
                    f"{person.user!r} has {len(person.items)} items and {len(person.ratings)} ratings."
                )
        ids = [person.user for person in people for _ in person.items]
        items = [item for person in people for item in person.items]
        ratings = [rating for person in people for rating in person.ratings]
        frame = {names.user: as_texts(ids), names.item: as_texts(items), names.rating: pa.array(ratings)}
        model = loaded.model.fold_in(pa.table(frame), on_unknown=asked.on_unknown)
        users = distinct([person.user for person in people])
        return answered(loaded._replace(model=model), users, asked, {"users": as_texts(users)})

    def answered(loaded: Loaded, users: list[Any], asked: ListRules, rules: dict[str, Any]) -> Any:
        model, name, _ = loaded
        order, explore, most = model.order(asked.by), asked.explore, MOST_CELLS // model.log.n_items
        if order == "thompson":
            explore, most = explore or 0.0, most // DRAWN  # what is drawn has a chance, which is logged
        if len(users) > max(most, 1):
            raise ParameterError(
                f"{len(users):,} users are too many for one request: ask for at most {max(most, 1):,}."
            )
        rules |= {"by": order, "exclude_seen": asked.exclude_seen, "explore": explore}
        rules |= {"items": as_texts(asked.items), "filter_items": as_texts(asked.filter_items)}
        seed = secrets.randbits(63) if asked.seed is None else asked.seed
        table = model.recommend(k=asked.k, seed=seed, library="pyarrow", **rules) if users else None
        request, moment = secrets.token_hex(8), time.time()
        policy = order + (f" explore={explore:g}" if explore else "")
        lists: dict[str, list[Any]] = {str(user): [] for user in users}
        for row in [] if table is None else table.to_pylist():
            user, item, position = (row.pop(key) for key in (model.log.names.user, model.log.names.item, "rank"))
            lists[str(user)].append({"item": item, "position": position} | row)
        found = [{"user": user, "items": lists[str(user)]} for user in users]
        if shown is not None:
            same = {"policy": policy, "model": name, "time": moment}
            for one in found:
                places = [{key: row.get(key, 1.0) for key in ("item", "position", "pscore")} for row in one["items"]]
                try:
                    shown.append([{"request": request, "user": one["user"]} | place | same for place in places])
                except OSError as error:
                    words = "Nothing is shown, as the log of what is shown cannot be written"
                    raise HTTPException(503, f"{words}: {reason(error)}") from error
                rows.inc(len(places))
        return {"model": name, "request": request, "policy": policy, "lists": found}

    def similar(asked: Alike) -> Any:
        """Find the items most like some items, or the users most like some users."""
        model, name, _ = live.current
        n = model.log.n_items if asked.users is None else model.log.n_users
        if max(len(asked.items or []), len(asked.users or [])) * n > MOST_CELLS:
            raise ParameterError(f"That is too much for one request: ask for at most {MOST_CELLS // n:,}.")
        found = model.similar(as_texts(asked.items), users=as_texts(asked.users), k=asked.k, library="pyarrow")
        return {"model": name, "similar": found.to_pylist()}

    def metrics() -> PlainTextResponse:
        """Count requests, their time, models and rows, in the text form of Prometheus."""
        return PlainTextResponse(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    def page() -> HTMLResponse:
        """Show what can be asked; /openapi.json has the same for programs."""
        return HTMLResponse(reference(app.openapi()))

    for path, function in (("/health", health), ("/metrics", metrics), ("/docs", page)):
        app.add_api_route(path, function, methods=["GET"])
    for path, door in (("/predict", predict), ("/recommend", recommend), ("/fold-in", fold_in), ("/similar", similar)):
        app.add_api_route(path, door, methods=["POST"])

    handlers: dict[Any, Any] = {
        UnskewError: lambda _, error: sentence(str(error), 422),
        RequestValidationError: invalid,
        HTTPException: lambda _, error: sentence(f"{error.detail}.", error.status_code),
        Exception: failed,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    return Bounded(app, registry)


def as_texts(ids: list[Any] | None) -> pa.Array | None:
    """Return ids, which may be left out, as text: 12 and "12" are the same id everywhere."""
    return None if ids is None else pa.array([str(each) for each in ids], pa.large_string())


def distinct(ids: list[Any]) -> list[Any]:
    """Return each id once, in the order of asking."""
    return list({str(each): each for each in ids}.values())


def sentence(text: str, status: int) -> JSONResponse:
    """Return an answer that says in a sentence what is wrong."""
    return JSONResponse({"error": text.encode("utf-8", "backslashreplace").decode()}, status)


def invalid(_: Request, error: Any) -> JSONResponse:
    """Say the first thing that is wrong with a request, and where."""
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"] if part != "body"]
    words, of_id = first["msg"][:300], [part for part in parts if part.startswith("constrained-")]
    if of_id:  # neither of the two kinds that an id may be
        parts, words = parts[: parts.index(of_id[0])], "an id is a whole number or a text of 1 to 1,000 characters"
    elif not parts or first["type"] == "json_invalid":
        parts, words = ["the body"], "it must be a JSON object, sent as Content-Type: application/json"
    return sentence(f"{'.'.join(parts)[:200]}: {words}; /docs shows what can be asked.", 422)


def failed(request: Request, error: Exception) -> JSONResponse:
    """Log a defect of ours, and give no word of it to the client."""
    LOGGER.error("%s failed", request.url.path, exc_info=error)
    return sentence("The server failed to answer; its log has the reason.", 500)


def reference(schema: dict[str, Any]) -> str:
    """Return what can be asked as a page that loads nothing from elsewhere."""
    parts = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            name = body.get("$ref", "").rpartition("/")[2]
            fields = schema["components"]["schemas"][name]["properties"] if name else {}
            listed = "".join(
                f"<li><code>{escape(key)}</code> {escape(json.dumps(held))}" for key, held in fields.items()
            )
            parts.append(
                f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(operation['description'])}</p><ul>{listed}</ul>"
            )
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>unskew</title><h1>unskew</h1>{''.join(parts)}"
