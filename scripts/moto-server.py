"""The server of moto, one call at a time: python moto-server.py PORT

moto's own server handles calls on threads that share its data without a lock. Two calls at once may then undo each
other: a message is lost that was sent while another one was deleted, and a transaction that fails puts back all tables
as they were when it began. So this server holds a lock during each call. A receive waits for messages without it.
"""

import io
import json
import sys
import threading
import time

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple
from werkzeug.test import run_wsgi_app

POLL = 0.1  # seconds between two looks of a receive that waits


class OneAtATime:
    def __init__(self, app):
        self.app, self.lock = app, threading.Lock()

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        until = 0.0
        if environ.get("HTTP_X_AMZ_TARGET") == "AmazonSQS.ReceiveMessage":
            request = json.loads(body)
            until = time.monotonic() + int(request.get("WaitTimeSeconds", 0))
            body = json.dumps(request | {"WaitTimeSeconds": 0}).encode()
        while True:
            call = environ | {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            with self.lock:
                answer, status, headers = run_wsgi_app(self.app, call, buffered=True)
            answer = b"".join(answer)
            if time.monotonic() >= until or not status.startswith("200") or b'"Messages"' in answer:
                start_response(status, list(headers))
                return [answer]
            time.sleep(POLL)


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections

    def log_request(self, *args):
        pass


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), OneAtATime(DomainDispatcherApplication(create_backend_app)), threaded=True, request_handler=Handler)
