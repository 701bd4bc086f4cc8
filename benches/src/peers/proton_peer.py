"""A sender and a receiver on Qpid Proton, whose engine is in C, in its Python interface's own style.

Arguments: HOST:PORT, a link's address, bytes of a body, messages in flight, seconds.
"""

import sys
import time

sys.path.insert(0, "packages")

from proton import Message  # noqa: E402
from proton.handlers import MessagingHandler  # noqa: E402
from proton.reactor import AtLeastOnce, Container  # noqa: E402


class InOut(MessagingHandler):
    def __init__(self, address, link, size, window, seconds):
        super().__init__(prefetch=window)
        self.url, self.link, self.window, self.seconds = f"amqp://{address}", link, window, seconds
        self.message = Message(body=b"x" * size, inferred=True)
        self.sent = self.accepted = self.received = 0
        self.told = (0, 0)
        self.sender = None
        self.start = self.last = time.monotonic()

    def on_start(self, event):
        container = event.container
        login = {"user": "guest", "password": "guest", "allowed_mechs": "PLAIN", "reconnect": False}
        # A connection for each, as bellows has.
        sending, receiving = (container.connect(self.url, **login) for _ in range(2))
        self.sender = container.create_sender(sending, self.link, options=AtLeastOnce())
        container.create_receiver(receiving, self.link, options=AtLeastOnce())
        container.schedule(1, self)

    def send(self):
        while self.sender.credit > 0 and self.sent - self.accepted < self.window:
            self.sender.send(self.message)
            self.sent += 1

    def on_sendable(self, event):
        self.send()

    def on_accepted(self, event):
        self.accepted += 1
        self.send()

    def on_message(self, event):
        self.received += 1

    def on_transport_error(self, event):
        sys.exit(f"{event.transport.condition}")

    def on_timer_task(self, event):
        now = time.monotonic()
        sent, received = ((count - before) / (now - self.last)
                          for count, before in zip((self.sent, self.received), self.told))
        print(f"time {now - self.start:.3f} s, sent: {sent:.0f} msg/s, received: {received:.0f} msg/s", flush=True)
        self.last, self.told = now, (self.sent, self.received)
        if now - self.start >= self.seconds:
            event.container.stop()
        else:
            event.container.schedule(1, self)


Container(InOut(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))).run()
