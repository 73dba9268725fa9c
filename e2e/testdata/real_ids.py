"""Schemathesis hooks that put existing ids into generated paths.

Generated ids fit their grammar but name nothing, so nearly all calls would end with 404.
The test passes the ids of the things that it made, as JSON in E2E_REAL_IDS:
  users     all users except the caller, whose token is used
  posts     posts of the caller, liked by all users
  deletable posts of the caller that only deletes and take-downs may use
  comments  [post, comment] pairs of the caller that only deletes may use
Calls act for the caller, and a removal of a user for a user of its own.
One valid path in four keeps its generated ids. So do paths that break the grammar on
purpose, and ids that the stateful phase takes from an answer into a call.
"""

import itertools
import json
import os

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase
from schemathesis.openapi.checks import UseAfterFree

IDS = json.loads(os.environ["E2E_REAL_IDS"])
DELETABLE = itertools.cycle(IDS["deletable"])
COMMENTS = itertools.cycle(IDS["comments"])
CALLS = itertools.count(1)
ENDS_OF_POSTS = {("delete", "/v1/posts/{id}"), ("put", "/v1/posts/{id}/takedown")}


def act(case):
    """Let calls act for the token's own user. Only the removal of a user acts for another one."""
    negative = case.meta and case.meta.is_negative_at(ParameterLocation.HEADER)
    if case.operation.path == "/v1/me" and case.operation.method.lower() == "delete":
        if not negative or "Fanfare-User" not in (case.headers or {}):
            case.headers = {**(case.headers or {}), "Fanfare-User": "leaver"}
    elif case.headers and not negative:
        case.headers.pop("Fanfare-User", None)


@schemathesis.hook
def before_call(context, case, kwargs):
    act(case)
    if case.meta is None:
        return
    if case.meta.phase.name == TestPhase.STATEFUL:
        # If a key and a body are drawn twice, the answer has the first post, which may be deleted by then.
        if case.headers and not case.meta.is_negative_at(ParameterLocation.HEADER):
            case.headers.pop("Idempotency-Key", None)
        return
    path = case.path_parameters
    if not path or case.meta.is_negative_at(ParameterLocation.PATH):
        return
    # The number is counted and not drawn, so that the run depends only on the seed of Schemathesis.
    call = next(CALLS)
    if call % 4 > 0:
        case.path_parameters = {**path, **real(case.operation, path, call)}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drop failures that the contract allows: a body that is too large is refused with 413,
    a deleted post's delivery can still be read by its author, and taking a like back deletes
    neither likes nor their count."""
    if isinstance(failure, AcceptedNegativeData) and response is not None and response.status_code == 413:
        return False
    return not isinstance(failure, UseAfterFree) or not (
        case.operation.path == "/v1/posts/{id}/delivery" or failure.free.endswith("/like")
    )


def real(operation, path, call):
    user = IDS["users"][call % len(IDS["users"])]
    post = IDS["posts"][call % len(IDS["posts"])]
    if operation.path == "/v1/me/bookmarks/{id}":
        return {"id": post}
    if not operation.path.startswith("/v1/posts/"):
        return {name: user for name in path}
    if operation.method.lower() == "delete" and "comment" in path:
        return dict(zip(("id", "comment"), next(COMMENTS)))
    if (operation.method.lower(), operation.path) in ENDS_OF_POSTS:
        return {"id": next(DELETABLE)}
    return {"id": post, "user": user} if "user" in path else {"id": post}
