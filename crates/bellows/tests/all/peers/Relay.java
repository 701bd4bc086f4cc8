import java.net.URI;
import java.util.ArrayList;
import javax.jms.BytesMessage;
import javax.jms.Message;
import javax.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Takes COUNT messages of SIZE bytes off a queue over AMQP 1.0 by the JMS client of Artemis, and sends each there again
 * as it came.
 *
 *     Relay.java URL QUEUE COUNT SIZE
 */
public class Relay {
    public static void main(String[] arguments) throws Exception {
        var url = new URI(arguments[0]);
        var login = url.getUserInfo().split(":");
        int count = Integer.parseInt(arguments[2]), size = Integer.parseInt(arguments[3]);
        var factory = new JmsConnectionFactory(login[0], login[1], "amqp://" + url.getHost() + ":" + url.getPort());
        try (var connection = factory.createConnection();
                var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            connection.start();
            var queue = session.createQueue(arguments[1]);
            var messages = new ArrayList<Message>();
            try (var consumer = session.createConsumer(queue)) {
                while (messages.size() < count) {
                    var message = (BytesMessage) consumer.receive(10_000);
                    if (message == null || message.getBodyLength() != size) {
                        throw new AssertionError(message + " behind " + messages.size() + " others");
                    }
                    messages.add(message);
                }
            }
            var producer = session.createProducer(queue);
            for (var message : messages) {
                producer.send(message);
            }
        }
    }
}
