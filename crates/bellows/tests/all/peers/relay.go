// Takes COUNT messages of SIZE bytes off a queue over AMQP 1.0 by Azure's go-amqp, and sends each there again as it
// came.
//
//	relay URL QUEUE COUNT SIZE
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/Azure/go-amqp"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(argument int) int {
	number, err := strconv.Atoi(os.Args[argument])
	check(err)
	return number
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	queue, count, size := os.Args[2], number(3), number(4)
	connection, err := amqp.Dial(ctx, os.Args[1], nil)
	check(err)
	session, err := connection.NewSession(ctx, nil)
	check(err)
	receiver, err := session.NewReceiver(ctx, queue, &amqp.ReceiverOptions{Credit: int32(count)})
	check(err)
	var messages []*amqp.Message
	for len(messages) < count {
		message, err := receiver.Receive(ctx, nil)
		check(err)
		if len(message.GetData()) != size {
			log.Fatalf("%d bytes: %v", len(message.GetData()), message)
		}
		check(receiver.AcceptMessage(ctx, message))
		messages = append(messages, message)
	}
	check(receiver.Close(ctx))
	sender, err := session.NewSender(ctx, queue, nil)
	check(err)
	for _, message := range messages {
		check(sender.Send(ctx, message, nil))
	}
	check(connection.Close())
}
