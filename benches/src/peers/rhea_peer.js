// A sender and a receiver on rhea, in its own style.
// Arguments: HOST:PORT, a link's address, bytes of a body, messages in flight, seconds.
'use strict';
const rhea = require('rhea');

const [address, link, ...numbers] = process.argv.slice(2);
const [size, window, seconds] = numbers.map(Number);
const [host, port] = address.split(':');
const options = { host, port: Number(port), username: 'guest', password: 'guest', reconnect: false };
const body = rhea.message.data_section(Buffer.alloc(size, 'x'));
let [sent, accepted, received] = [0, 0, 0];

rhea.on('disconnected', () => {
    console.error('disconnected');
    process.exit(1);
});

// A connection for each, as bellows has.
const sender = rhea.connect(options).open_sender({ target: link, snd_settle_mode: 0 });
const receiver = rhea.connect(options).open_receiver({ source: link, snd_settle_mode: 0, credit_window: window });

function send() {
    while (sender.sendable() && sent - accepted < window) {
        sender.send({ body });
        sent += 1;
    }
}

sender.on('sendable', send);
sender.on('accepted', () => {
    accepted += 1;
    send();
});
receiver.on('message', () => {
    received += 1;
});

const now = () => Number(process.hrtime.bigint()) / 1e9;
const start = now();
let [last, told] = [start, [0, 0]];
setInterval(() => {
    const at = now();
    const rates = [sent, received].map((count, i) => ((count - told[i]) / (at - last)).toFixed(0));
    console.log(`time ${(at - start).toFixed(3)} s, sent: ${rates[0]} msg/s, received: ${rates[1]} msg/s`);
    [last, told] = [at, [sent, received]];
    if (at - start >= seconds) {
        process.exit(0);
    }
}, 1000);
