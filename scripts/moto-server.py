"""The server of moto, one call at a time: python moto-server.py PORT

moto's own server handles calls on threads that share its data without a lock, so two writers who create one
object on a condition may both succeed. This server holds a lock during each call.
"""

import io
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple
from werkzeug.test import run_wsgi_app


class OneAtATime:
    def __init__(self, app):
        self.app, self.lock = app, threading.Lock()

    def __call__(self, environ, start_response):
        # The server reads the body without the lock, because a client may be slow.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        call = environ | {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        with self.lock:
            answer, status, headers = run_wsgi_app(self.app, call, buffered=True)
        start_response(status, list(headers))
        return [b"".join(answer)]


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def log_request(self, *args):
        pass


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), OneAtATime(DomainDispatcherApplication(create_backend_app)), threaded=True, request_handler=Handler)
