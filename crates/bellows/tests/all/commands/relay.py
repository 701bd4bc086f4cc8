"""Takes COUNT messages of SIZE bytes off a queue over AMQP 1.0 by qpid-proton, and sends each there again as it came.

    relay.py URL QUEUE COUNT SIZE
"""

import sys

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Relay(MessagingHandler):
    def __init__(self, url, queue, count, size):
        super().__init__(prefetch=count)
        self.url, self.queue, self.count, self.size = url, queue, count, size
        self.messages, self.unsent, self.unsettled = [], count, count

    def on_start(self, event):
        self.connection = event.container.connect(self.url, reconnect=False, allowed_mechs="PLAIN")
        self.receiver = event.container.create_receiver(self.connection, self.queue)

    def on_message(self, event):
        assert len(event.message.body) == self.size, event.message
        self.messages.append(event.message)
        if len(self.messages) == self.count:
            self.receiver.close()
            event.container.create_sender(self.connection, self.queue)

    def on_sendable(self, event):
        while event.sender.credit and self.unsent:
            self.unsent -= 1
            event.sender.send(self.messages.pop(0))

    def on_accepted(self, event):
        self.unsettled -= 1
        if not self.unsettled:
            self.connection.close()

    def on_transport_error(self, event):
        sys.exit(f"{event.transport.condition}")


Container(Relay(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))).run()
