// A sender and a receiver on Azure's go-amqp, in its own style.
// Arguments: HOST:PORT, a link's address, bytes of a body, messages in flight, seconds.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/Azure/go-amqp"
)

var sent, received atomic.Int64

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

// A connection for each, as bellows has.
func session(ctx context.Context) *amqp.Session {
	options := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("guest", "guest")}
	connection, err := amqp.Dial(ctx, "amqp://"+os.Args[1], options)
	check(err)
	session, err := connection.NewSession(ctx, nil)
	check(err)
	return session
}

func main() {
	ctx, link, window := context.Background(), os.Args[2], number(4)
	seconds := time.Duration(number(5)) * time.Second
	unsettled := amqp.SenderSettleModeUnsettled
	sender, err := session(ctx).NewSender(ctx, link, &amqp.SenderOptions{SettlementMode: &unsettled})
	check(err)
	receiver, err := session(ctx).NewReceiver(ctx, link, &amqp.ReceiverOptions{Credit: int32(window)})
	check(err)
	receipts := make(chan amqp.SendReceipt, window)
	go func() {
		message := amqp.NewMessage(make([]byte, number(3)))
		for {
			receipt, err := sender.SendWithReceipt(ctx, message, nil)
			check(err)
			sent.Add(1)
			receipts <- receipt
		}
	}()
	go func() {
		for receipt := range receipts {
			_, err := receipt.Wait(ctx)
			check(err)
		}
	}()
	go func() {
		for {
			message, err := receiver.Receive(ctx, nil)
			check(err)
			check(receiver.AcceptMessage(ctx, message))
			received.Add(1)
		}
	}()
	start, last := time.Now(), time.Now()
	for time.Since(start) < seconds {
		time.Sleep(time.Second)
		length := time.Since(last).Seconds()
		last = time.Now()
		fmt.Printf("time %.3f s, sent: %.0f msg/s, received: %.0f msg/s\n", time.Since(start).Seconds(),
			float64(sent.Swap(0))/length, float64(received.Swap(0))/length)
	}
}
