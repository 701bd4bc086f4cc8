"""Writes proton-session.txt: what qpid-proton (0.37, Debian's python3-qpid-proton) says as client (C) and as server (S),
over memory, and values and messages (V, M) as it encodes them. Side, what it is, bytes in hexadecimal."""
from uuid import UUID
from proton import *

NAMES = {0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer", 0x15: "disposition", 0x16: "detach",
         0x17: "end", 0x18: "close", 0x40: "sasl-mechanisms", 0x41: "sasl-init", 0x44: "sasl-outcome"}


def split(side, data):
    while data:
        size = 8 if data[:4] == b"AMQP" else int.from_bytes(data[:4], "big")
        frame, data = data[:size], data[size:]
        name = "header" if frame[:4] == b"AMQP" else NAMES[frame[10]] if size > 8 else "empty"
        print(side, name, frame.hex())


def carry(side, source, target):
    moved = b""
    while source.pending() > 0:
        data = source.peek(source.pending())
        source.pop(len(data))
        moved += data
        target.push(data)
    split(side, moved)
    return bool(moved)


def pump():
    while carry("C", client, server) | carry("S", server, client):
        pass


def put(data, value):
    data.put_object(value)
    return data


def value(name, fill):
    data = Data()
    fill(data)
    print("V", name, data.encode().hex())


client, server = Transport(Transport.CLIENT), Transport(Transport.SERVER)
client.max_frame_size = server.max_frame_size = 512
client.idle_timeout, server.idle_timeout = 30, 20
for sasl in (client.sasl(), server.sasl()):
    sasl.allowed_mechs("ANONYMOUS")
ours, theirs = Connection(), Connection()
ours.container, ours.hostname, theirs.container = "client", "vhost:/", "server"
ours.properties = {symbol("product"): "proton", symbol("n"): 5}
client.bind(ours)
server.bind(theirs)
ours.open()
session = ours.session()
session.open()
sender, receiver = session.sender("s"), session.receiver("r")
sender.source.address, sender.target.address = "from", "/queues/q"
receiver.source.address, receiver.target.address = "/queues/q", "to"
receiver.source.capabilities.put_array(False, Data.SYMBOL)
receiver.source.capabilities.enter()
receiver.source.capabilities.put_symbol("queue")
receiver.source.capabilities.put_symbol("topic")
sender.open()
receiver.open()
pump()
theirs.open()
peer = theirs.session_head(0)
peer.open()
link = theirs.link_head(0)
links = {}
while link:
    links[link.name] = link
    link.source.copy(link.remote_source)
    link.target.copy(link.remote_target)
    link.open()
    link = link.next(0)
links["s"].flow(10)
receiver.flow(20)
pump()
message = Message(body=b"body", durable=True, priority=7, ttl=30, id="id-1", user_id=b"me", address="to", subject="s",
                  reply_to="back", correlation_id=5, content_type="text/plain", creation_time=1700000000,
                  group_id="g", properties={"k": "v", "n": 1, "b": b"\x00\xff"}, annotations={symbol("x-opt-a"): True},
                  inferred=True)
outcomes = [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
for n, outcome in enumerate(outcomes):
    sender.delivery("tag-%d" % n)
    sender.send(message.encode())
    sender.advance()
    pump()
    got = links["s"].current
    links["s"].recv(10000)
    if outcome == Delivery.REJECTED:
        got.local.condition = Condition("amqp:resource-limit-exceeded", "full")
    if outcome == Delivery.MODIFIED:
        got.local.failed = True
    got.update(outcome)
    got.settle()
    links["s"].advance()
    pump()
long = Message(body=b"x" * 1200, inferred=True)
links["r"].delivery("long")
links["r"].send(long.encode())
links["r"].advance()
pump()
receiver.drain(0)
pump()
links["s"].close()
pump()
sender.close()
receiver.close()
session.close()
ours.close()
pump()
theirs.condition = Condition("amqp:connection:forced", "bye")
theirs.close()
pump()

for name, body in [("text", "héllo"), ("bytes", b"\x00\x01"), ("map", {"a": [1, None]}), ("number", 300)]:
    print("M", name, Message(body=body).encode().hex())
for name, fill in [
    ("null", Data.put_null), ("true", lambda d: d.put_bool(True)), ("false", lambda d: d.put_bool(False)),
    ("ubyte", lambda d: d.put_ubyte(200)), ("byte", lambda d: d.put_byte(-8)), ("ushort", lambda d: d.put_ushort(60000)),
    ("short", lambda d: d.put_short(-16)), ("uint0", lambda d: d.put_uint(0)), ("uint8", lambda d: d.put_uint(255)),
    ("uint32", lambda d: d.put_uint(4000000000)), ("int8", lambda d: d.put_int(-32)), ("int32", lambda d: d.put_int(-70000)),
    ("char", lambda d: d.put_char("é")), ("ulong0", lambda d: d.put_ulong(0)), ("ulong8", lambda d: d.put_ulong(20)),
    ("ulong64", lambda d: d.put_ulong(2**63)), ("long8", lambda d: d.put_long(-64)), ("long64", lambda d: d.put_long(-2**40)),
    ("timestamp", lambda d: d.put_timestamp(1700000000000)), ("float", lambda d: d.put_float(1.5)),
    ("double", lambda d: d.put_double(-2.25)), ("decimal32", lambda d: d.put_decimal32(7)),
    ("decimal64", lambda d: d.put_decimal64(7)), ("decimal128", lambda d: d.put_decimal128(bytes(range(16)))),
    ("uuid", lambda d: d.put_uuid(UUID(int=5))), ("binary", lambda d: d.put_binary(b"\x00\xff")),
    ("string", lambda d: d.put_string("hi")), ("long-string", lambda d: d.put_string("x" * 300)),
    ("symbol", lambda d: d.put_symbol("amqp:x")),
    ("list", lambda d: put(d, [1, "a", None])), ("empty-list", lambda d: put(d, [])), ("map", lambda d: put(d, {"a": 1})),
    ("array", lambda d: put(d, Array(UNDESCRIBED, Data.INT, 1, 2, 3))),
    ("described-array", lambda d: put(d, Array(symbol("x:y"), Data.SYMBOL, symbol("a"), symbol("b")))),
    ("described", lambda d: put(d, Described(ulong(0x77), "text"))),
]:
    value(name, fill)
