// Takes COUNT messages of SIZE bytes off a queue over AMQP 1.0 by rhea, and sends each there again as it came.
//
//   relay.js URL QUEUE COUNT SIZE
'use strict';
const assert = require('assert');
const rhea = require('rhea');

const [url, queue, ...numbers] = process.argv.slice(2);
const [count, size] = numbers.map(Number);
const { hostname, port, username, password } = new URL(url);
const messages = [];
let unsettled = count;

const connection = rhea.connect({ host: hostname, port: Number(port), username, password, reconnect: false });
const receiver = connection.open_receiver({ source: queue, credit_window: count });

connection.on('message', ({ message }) => {
    assert.strictEqual(message.body.content.length, size);
    messages.push(message);
    if (messages.length === count) {
        receiver.close();
        connection.open_sender(queue);
    }
});

connection.on('sendable', ({ sender }) => {
    while (sender.sendable() && messages.length > 0) {
        sender.send(messages.shift());
    }
});

connection.on('accepted', () => {
    unsettled -= 1;
    if (unsettled === 0) {
        connection.close();
    }
});

connection.on('disconnected', () => {
    process.exit(1);
});
