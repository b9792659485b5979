"""Accepts connections, logs the first bytes of each as one JSON line, answers as HTTP."""
import json
import os
import socketserver
import time


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(2)
        data = b""
        try:
            while len(data) < 65536:
                part = self.request.recv(65536)
                if not part:
                    break
                data += part
                head, found, body = data.partition(b"\r\n\r\n")
                length = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                if found and len(body) >= (int(length[0]) if length and length[0].strip().isdigit() else 0):
                    break
            self.request.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
        except OSError:
            pass
        print(json.dumps({"time": time.time(), "received": data.decode("utf-8", "replace")}), flush=True)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
