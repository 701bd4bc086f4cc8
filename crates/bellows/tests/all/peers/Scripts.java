import static org.hamcrest.Matchers.*;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;
import org.apache.qpid.protonj2.test.driver.ProtonTestClient;
import org.apache.qpid.protonj2.test.driver.ProtonTestPeer;
import org.apache.qpid.protonj2.test.driver.ProtonTestServer;
import org.apache.qpid.protonj2.test.driver.ScriptWriter;
import org.apache.qpid.protonj2.test.driver.actions.DispositionInjectAction;
import org.apache.qpid.protonj2.test.driver.actions.FlowInjectAction;
import org.apache.qpid.protonj2.test.driver.actions.TransferInjectAction;
import org.apache.qpid.protonj2.test.driver.codec.messaging.Received;
import org.apache.qpid.protonj2.test.driver.codec.messaging.Source;
import org.apache.qpid.protonj2.test.driver.codec.messaging.Target;
import org.apache.qpid.protonj2.test.driver.codec.primitives.Symbol;
import org.apache.qpid.protonj2.test.driver.codec.primitives.UnsignedInteger;
import org.apache.qpid.protonj2.test.driver.codec.primitives.UnsignedLong;
import org.apache.qpid.protonj2.test.driver.codec.transactions.Declared;
import org.apache.qpid.protonj2.test.driver.codec.transport.ReceiverSettleMode;
import org.apache.qpid.protonj2.test.driver.expectations.OpenExpectation;
import org.hamcrest.Matcher;

/**
 * Scripted peers of AMQP 1.0, by the test driver of Qpid's protonj2. Each line of standard input names a script; the
 * answer is a line that begins with `passed` or `FAILED`.
 *
 *     NAME            a server's, for a client that connects three times; `port N` is printed first
 *     NAME HOST:PORT  a client's, for a broker that has three messages of 1,000 bytes in the queue NAME
 */
public class Scripts {
    static final long SECONDS = 30;
    /** Numbers that wrap round after two. */
    static final long NEARLY_ALL = 0xFFFF_FFFEL;
    /** The beginning of a body of 40 bytes. */
    static final byte[] HEAD = {0, 0x53, 0x75, (byte) 0xB0, 0, 0, 0, 40};

    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset();
        readLoneSymbols();
        var lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            var words = lines.nextLine().split(" ");
            System.out.println(words.length == 1 ? serve(words[0]) : call(words[0], words[1].split(":")));
        }
        System.exit(0);
    }

    static String serve(String name) throws Exception {
        // A client that may not manage queues connects once more without asking to.
        var peers = List.of(new ProtonTestServer(), new ProtonTestServer(), new ProtonTestServer());
        Servers.refuseToManage(peers.get(0));
        Servers.open(peers.get(1));
        peers.get(1).expectClose().respond();
        Servers.class.getDeclaredMethod(name, ProtonTestServer.class).invoke(null, peers.get(2));
        try (var front = new ServerSocket(0, 8, InetAddress.getLoopbackAddress())) {
            front.setSoTimeout((int) SECONDS * 1_000);
            System.out.println("port " + front.getLocalPort());
            for (var peer : peers) {
                peer.start();
                join(front.accept(), new Socket(front.getInetAddress(), peer.getServerURI().getPort()));
            }
            return outcome(peers);
        } catch (IOException error) {
            return "FAILED: " + error;
        } finally {
            peers.forEach(ProtonTestServer::close);
        }
    }

    static String call(String name, String[] address) throws Exception {
        try (var peer = new ProtonTestClient()) {
            Clients.class.getDeclaredMethod(name, ProtonTestClient.class).invoke(null, peer);
            peer.connect(address[0], Integer.parseInt(address[1]));
            return outcome(List.of(peer));
        }
    }

    static String outcome(List<? extends ProtonTestPeer> peers) {
        try {
            for (var peer : peers) {
                peer.waitForScriptToComplete(SECONDS, TimeUnit.SECONDS);
            }
            return "passed";
        } catch (AssertionError error) {
            var reasons = new StringBuilder("FAILED");
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                reasons.append(": ").append(String.valueOf(cause.getMessage()).replaceAll("\\s+", " "));
            }
            return reasons.toString();
        }
    }

    static void join(Socket one, Socket other) throws IOException {
        one.setTcpNoDelay(true);
        other.setTcpNoDelay(true);
        copy(one, other);
        copy(other, one);
    }

    static void copy(Socket from, Socket to) {
        new Thread(() -> {
            try (to) {
                from.getInputStream().transferTo(to.getOutputStream());
            } catch (IOException gone) {
                // The other side hears of it by the end of `to`.
            }
        }).start();
    }

    /**
     * The driver takes fields of several symbols for arrays, and fails on one by itself, which section 1.4 of the
     * specification permits and bellows sends.
     */
    @SuppressWarnings("unchecked")
    static void readLoneSymbols() throws Exception {
        var registry = Class.forName("org.apache.qpid.protonj2.test.driver.codec.DescribedTypeRegistry");
        var types = registry.getDeclaredField("describedTypes");
        types.setAccessible(true);
        var known = (Map<Object, Class<?>>) types.get(null);
        known.put(Source.DESCRIPTOR_CODE, LoneSource.class);
        known.put(Target.DESCRIPTOR_CODE, LoneTarget.class);
    }

    static Symbol[] several(Object field) {
        return field instanceof Symbol one ? new Symbol[] {one} : (Symbol[]) field;
    }

    public static class LoneSource extends Source {
        public LoneSource(Object fields) {
            super(fields);
        }

        @Override
        public Symbol[] getOutcomes() {
            return several(getFieldValue(Field.OUTCOMES.ordinal()));
        }

        @Override
        public Symbol[] getCapabilities() {
            return several(getFieldValue(Field.CAPABILITIES.ordinal()));
        }
    }

    public static class LoneTarget extends Target {
        public LoneTarget(Object fields) {
            super(fields);
        }

        @Override
        public Symbol[] getCapabilities() {
            return several(getFieldValue(Field.CAPABILITIES.ordinal()));
        }
    }

    /** A session's flow, which names no link. */
    static FlowInjectAction flow(ScriptWriter peer, long window, long incoming, long outgoing) {
        return peer.remoteFlow().withNullHandle().withIncomingWindow(window).withOutgoingWindow(100)
            .withNextIncomingId(incoming).withNextOutgoingId(outgoing);
    }

    /** Credit on link 0, when `count` messages have gone over it and the session. */
    static FlowInjectAction credit(ScriptWriter peer, long count, long credit) {
        return flow(peer, 100, count, 0).withHandle(0).withDeliveryCount(count).withLinkCredit(credit);
    }

    static DispositionInjectAction settle(ScriptWriter peer, boolean receiver, long first, long last, boolean settled) {
        return peer.remoteDisposition().withRole(receiver).withFirst(first).withLast(last).withSettled(settled);
    }

    /** A flag, which is false where it is absent. */
    static Matcher<Object> flag(boolean value) {
        return value ? is((Object) true) : anyOf(nullValue(), is((Object) false));
    }

    /** Peers of `bellows client`. */
    static class Servers {
        static OpenExpectation login(ProtonTestServer peer) {
            peer.expectSASLPlainConnect("u", "p");
            return peer.expectOpen().withContainerId(notNullValue());
        }

        static void open(ProtonTestServer peer) {
            login(peer).respond().withContainerId("peer").withProperty("product", "peer").withProperty("version", "1");
        }

        static void open(ProtonTestServer peer, int frame, int idle) {
            login(peer).respond().withContainerId("peer").withProperty("product", "peer").withMaxFrameSize(frame)
                .withIdleTimeOut(idle);
        }

        static void refuseToManage(ProtonTestServer peer) {
            open(peer);
            peer.expectBegin().respond();
            peer.expectAttach().ofSender().reject(true, "amqp:unauthorized-access", "no");
            peer.expectAttach().ofReceiver().optional();
            peer.expectDetach().optional();
            peer.expectClose().optional().respond();
        }

        /** The client has begun to send, and gets so much credit. */
        static void sender(ProtonTestServer peer, long credit, boolean settled) {
            peer.expectBegin().withNextOutgoingId(0).respond().withIncomingWindow(100).withOutgoingWindow(100);
            peer.expectAttach().ofSender().withHandle(0).withInitialDeliveryCount(0)
                .withSndSettleMode((byte) (settled ? 1 : 0)).respond();
            credit(peer, 0, credit).queue();
        }

        static void unsettled(ProtonTestServer peer, long credit, int messages) {
            open(peer);
            sender(peer, credit, false);
            transfers(peer, 0, messages, false);
        }

        static void transfers(ProtonTestServer peer, int from, int to, boolean settled) {
            for (int id = from; id < to; id++) {
                peer.expectTransfer().withHandle(0).withDeliveryId(id).withSettled(settled).withMore(flag(false))
                    .withNonNullPayload();
            }
        }

        static DispositionInjectAction settle(ProtonTestServer peer, long first, long last, boolean settled) {
            return Scripts.settle(peer, true, first, last, settled);
        }

        static void accepted(ProtonTestServer peer) {
            open(peer);
            sender(peer, 10, false);
            for (int id = 0; id < 10; id++) {
                peer.expectTransfer().withDeliveryId(id).withSettled(false).respond().withSettled(true).withState()
                    .accepted();
            }
            peer.expectClose().respond();
        }

        /** It accepts, and leaves it to the client to settle first. */
        static void second(ProtonTestServer peer) {
            open(peer);
            peer.expectBegin().respond();
            peer.expectAttach().ofSender().respond().withRcvSettleMode(ReceiverSettleMode.SECOND);
            credit(peer, 0, 10).queue();
            transfers(peer, 0, 10, false);
            settle(peer, 0, 9, false).withState().accepted().queue();
            peer.expectDisposition().withRole(false).withFirst(0).withLast(9).withSettled(true);
            settle(peer, 0, 9, true).withState().accepted().queue();
            peer.expectClose().respond();
        }

        /** Ranges overlap, and come in disorder. */
        static void ranges(ProtonTestServer peer) {
            unsettled(peer, 10, 10);
            settle(peer, 7, 8, true).withState().accepted().queue();
            settle(peer, 3, 5, true).withState().accepted().queue();
            settle(peer, 0, 9, true).withState().accepted().queue();
            peer.expectClose().respond();
        }

        /** It accepts what was never sent. */
        static void never_sent(ProtonTestServer peer) {
            unsettled(peer, 10, 10);
            settle(peer, 0, 1_000_000, true).withState().accepted().queue();
            peer.expectClose().respond();
        }

        /** A disposition that neither settles nor has a state says nothing. */
        static void rejected(ProtonTestServer peer) {
            unsettled(peer, 10, 10);
            settle(peer, 0, 9, false).queue();
            settle(peer, 0, 9, true).withState().rejected("amqp:internal-error", "no").queue();
            peer.expectClose().respond();
        }

        /** Two of each outcome; the last two are settled without one. */
        static void outcomes(ProtonTestServer peer) {
            unsettled(peer, 10, 10);
            var received = new Received().setSectionNumber(UnsignedInteger.valueOf(0))
                .setSectionOffset(UnsignedLong.valueOf(5));
            settle(peer, 0, 1, false).withState(received).queue();
            settle(peer, 0, 1, true).withState().accepted().queue();
            settle(peer, 2, 3, true).withState().released().queue();
            settle(peer, 4, 5, true).withState().modified(true, true).queue();
            settle(peer, 6, 7, true).withState().rejected("amqp:internal-error", "no").queue();
            settle(peer, 8, 9, true).queue();
            peer.expectClose().respond();
        }

        /** Each message needs five frames, of which no more go at a time, on a link with a credit of 1. */
        static void credit_of_one(ProtonTestServer peer) {
            open(peer, 512, 0);
            peer.expectBegin().respond().withIncomingWindow(5).withOutgoingWindow(5).withNextOutgoingId(NEARLY_ALL);
            peer.expectAttach().ofSender().respond().withHandle(7);
            for (int id = 0; id < 4; id++) {
                flow(peer, 5, 5 * id, NEARLY_ALL).withHandle(7).withDeliveryCount(id).withLinkCredit(1).queue();
                for (int frame = 0; frame < 5; frame++) {
                    var number = is((Object) UnsignedInteger.valueOf(id));
                    peer.expectTransfer().withDeliveryId(frame == 0 ? number : anyOf(nullValue(), number))
                        .withMore(flag(frame < 4));
                }
                settle(peer, id, id, true).withState().accepted().queue();
            }
            peer.expectClose().respond();
        }

        /** Credit is taken back, and the session's window closed and opened by and by. */
        static void revoked(ProtonTestServer peer) {
            unsettled(peer, 3, 3);
            credit(peer, 3, 0).queue();
            settle(peer, 0, 2, true).withState().accepted().queue();
            flow(peer, 0, 3, 0).withHandle(0).withDeliveryCount(3).withLinkCredit(10).queue();
            flow(peer, 2, 3, 0).afterDelay(700).queue();
            transfers(peer, 3, 5, false);
            flow(peer, 100, 5, 0).queue();
            transfers(peer, 5, 10, false);
            settle(peer, 3, 9, true).withState().accepted().queue();
            peer.expectClose().respond();
        }

        /** The client is to use up its credit, which it cannot: the window is closed. Then it gets more. */
        static void drained(ProtonTestServer peer) {
            open(peer);
            sender(peer, 5, true);
            transfers(peer, 0, 5, true);
            flow(peer, 0, 5, 0).withHandle(0).withDeliveryCount(5).withLinkCredit(20).withDrain(true).queue();
            peer.expectFlow().withHandle(0).withDeliveryCount(25).withLinkCredit(0);
            flow(peer, 100, 5, 0).withHandle(0).withDeliveryCount(25).withLinkCredit(20).queue();
            transfers(peer, 5, 10, true);
            peer.expectClose().respond();
        }

        /** It wants to hear something every 200 ms, and lets nothing be sent until it has heard eight times. */
        static void idle(ProtonTestServer peer) {
            open(peer, 65_536, 200);
            peer.expectBegin().respond();
            peer.expectAttach().ofSender().respond();
            for (int frame = 0; frame < 8; frame++) {
                peer.expectEmptyFrame();
            }
            credit(peer, 0, 10).queue();
            transfers(peer, 0, 10, false);
            settle(peer, 0, 9, true).withState().accepted().queue();
            peer.expectClose().respond();
        }

        /** It asks for the state of session and link. */
        static void echoes(ProtonTestServer peer) {
            open(peer);
            peer.remoteEmptyFrame().queue();
            peer.expectBegin().respond();
            flow(peer, 100, 0, 0).withEcho(true).queue();
            peer.expectAttach().ofSender().respond();
            peer.expectFlow().withHandle(nullValue()).withNextOutgoingId(0).withNextIncomingId(notNullValue());
            credit(peer, 0, 10).queue();
            transfers(peer, 0, 10, false);
            credit(peer, 10, 0).withEcho(true).queue();
            peer.expectFlow().withHandle(0).withDeliveryCount(10).withLinkCredit(0).withNextOutgoingId(10);
            settle(peer, 0, 9, true).withState().accepted().queue();
            peer.expectClose().respond();
        }

        /** It falls silent; the client wants to hear something every second. */
        static void silent(ProtonTestServer peer) {
            login(peer).withIdleTimeOut(greaterThan(UnsignedInteger.valueOf(0))).respond().withContainerId("peer")
                .withProperty("product", "peer");
            peer.expectBegin().respond();
            peer.expectAttach().ofSender().respond();
            peer.expectClose().optional();
            peer.expectConnectionToDrop();
        }

        static void detached(ProtonTestServer peer) {
            unsettled(peer, 3, 3);
            peer.remoteDetach().withHandle(0).withClosed(true).withErrorCondition("amqp:resource-deleted", "gone")
                .queue();
            peer.expectDetach().withHandle(0).withClosed(true).withError(nullValue());
            peer.expectClose().respond();
        }

        /** A link that is to be resumed. */
        static void suspended(ProtonTestServer peer) {
            unsettled(peer, 3, 3);
            peer.remoteDetach().withHandle(0).withClosed(false).queue();
            peer.expectDetach().withHandle(0).withClosed(flag(false));
            peer.expectClose().respond();
        }

        static void ended(ProtonTestServer peer) {
            unsettled(peer, 3, 3);
            peer.remoteEnd().withErrorCondition("amqp:internal-error", "why not").queue();
            peer.expectEnd().withError(nullValue());
            peer.expectClose().respond();
        }

        static void closed(ProtonTestServer peer) {
            unsettled(peer, 3, 3);
            peer.remoteClose().withErrorCondition("amqp:connection:forced", "maintenance").queue();
            peer.expectClose().withError(nullValue());
        }

        static void refused(ProtonTestServer peer) {
            open(peer);
            peer.expectBegin().respond();
            peer.expectAttach().ofSender().reject(true, "amqp:not-found", "no such queue");
            peer.expectDetach().withClosed(true).withHandle(0);
            peer.expectClose().respond();
        }

        /** The session begins before the connection is open. */
        static void begun_early(ProtonTestServer peer) {
            login(peer);
            peer.remoteBegin().onChannel(0).queue();
            peer.expectClose().withError("amqp:not-allowed");
        }

        static void closed_early(ProtonTestServer peer) {
            login(peer).respond().withContainerId("peer");
            peer.remoteClose().withErrorCondition("amqp:not-allowed", "no such host").queue();
            peer.expectBegin().optional();
            peer.expectAttach().optional();
            peer.expectClose();
        }

        static void stranger(ProtonTestServer peer) {
            peer.expectFailingSASLPlainConnect((byte) 1, "PLAIN", "ANONYMOUS");
        }

        static void busy(ProtonTestServer peer) {
            peer.expectFailingSASLPlainConnect((byte) 4, "PLAIN");
        }

        static void other_mechanism(ProtonTestServer peer) {
            peer.expectSASLHeader().respondWithSASLHeader();
            peer.remoteSaslMechanisms().withMechanisms("SCRAM-SHA-256").queue();
            peer.expectConnectionToDrop();
        }

        /** The client has granted so much credit; the numbers of sessions and deliveries begin at `first`. */
        static void receiver(ProtonTestServer peer, long credit, long first) {
            open(peer);
            peer.expectBegin().respond().withIncomingWindow(100).withOutgoingWindow(1_000).withNextOutgoingId(first);
            peer.expectAttach().ofReceiver().withHandle(0).withInitialDeliveryCount(nullValue()).respond()
                .withHandle(3).withInitialDeliveryCount(first);
            peer.expectFlow().withHandle(0).withDeliveryCount(first).withLinkCredit(credit).withNextIncomingId(first)
                .withIncomingWindow(greaterThan(UnsignedInteger.valueOf(0)));
        }

        static TransferInjectAction transfer(ProtonTestServer peer, long id) {
            return peer.remoteTransfer().withHandle(3).withDeliveryId(id & 0xFFFF_FFFFL)
                .withDeliveryTag(new byte[] {(byte) id}).withMessageFormat(0);
        }

        static void expectAccepted(ProtonTestServer peer, long id) {
            peer.expectDisposition().withRole(true).withFirst(id & 0xFFFF_FFFFL).withSettled(true).withState()
                .accepted();
        }

        /** A delivery in parts, given up ones, bodies of other kinds, heartbeats between, numbers that wrap. */
        static void parts(ProtonTestServer peer) {
            receiver(peer, 10, NEARLY_ALL);
            transfer(peer, NEARLY_ALL).withMore(true).withPayload(HEAD).queue();
            peer.remoteEmptyFrame().queue();
            peer.remoteTransfer().withHandle(3).withMore(true).withPayload(new byte[20]).queue();
            peer.remoteTransfer().withHandle(3).withDeliveryId(NEARLY_ALL).withPayload(new byte[20]).queue();
            expectAccepted(peer, NEARLY_ALL);
            transfer(peer, NEARLY_ALL + 1).withMore(true).withPayload(HEAD).queue();
            peer.remoteTransfer().withHandle(3).withAborted(true).queue();
            transfer(peer, NEARLY_ALL + 2).withAborted(true).withPayload(new byte[3]).queue();
            transfer(peer, NEARLY_ALL + 3).withBatchable(true).withHeader().withDurability(true).also().withBody()
                .withValue("a text").also().queue();
            expectAccepted(peer, NEARLY_ALL + 3);
            transfer(peer, NEARLY_ALL + 4).withBody().withSequence(List.of("a", 1)).also().withFooter()
                .withFooter("x", "y").also().queue();
            peer.expectFlow().withHandle(0).withLinkCredit(10).optional();
            expectAccepted(peer, NEARLY_ALL + 4);
            peer.expectFlow().withHandle(0).optional();
            peer.expectClose().respond();
        }

        /** Deliveries that are settled already use up credit, too, which the client renews. */
        static void settled(ProtonTestServer peer) {
            receiver(peer, 4, 0);
            for (int id = 0; id < 6; id += 2) {
                for (int more = 0; more < 2; more++) {
                    transfer(peer, id + more).withSettled(true).withBody().withData(new byte[40]).also().queue();
                }
                // That they are accepted may be said, and is of no use.
                peer.expectDisposition().optional();
                peer.expectDisposition().optional();
                peer.expectFlow().withHandle(0).withDeliveryCount(id + 2).withLinkCredit(4);
            }
            peer.expectClose().respond();
        }

        /** Nothing in it, another format, all sections; and the server settles what is settled. */
        static void odd(ProtonTestServer peer) {
            receiver(peer, 10, 0);
            transfer(peer, 0).withPayload(new byte[0]).queue();
            expectAccepted(peer, 0);
            transfer(peer, 1).withMessageFormat(7).withDeliveryTag(new byte[32]).withBody().withData(new byte[0])
                .also().queue();
            expectAccepted(peer, 1);
            transfer(peer, 2).withRcvSettleMode(ReceiverSettleMode.FIRST).withDeliveryAnnotations()
                .withAnnotation("a", 1).also().withMessageAnnotations().withAnnotation("b", List.of(1, "x")).also()
                .withProperties().withMessageId(UUID.randomUUID()).withTo("q").also().withBody()
                .withValue(Map.of("k", 1)).also().queue();
            expectAccepted(peer, 2);
            Scripts.settle(peer, false, 0, 2, true).withState().accepted().queue();
            flow(peer, 100, 0, 3).withHandle(3).withDeliveryCount(3).withLinkCredit(7).withAvailable(0).withEcho(true)
                .queue();
            peer.expectFlow().withHandle(0).withDeliveryCount(3).withLinkCredit(7).withNextIncomingId(3);
            peer.expectClose().respond();
        }

        /** The link ends within a delivery. */
        static void halfway(ProtonTestServer peer) {
            receiver(peer, 10, 0);
            transfer(peer, 0).withMore(true).withPayload(new byte[] {0, 0x53}).queue();
            peer.remoteDetach().withHandle(3).withClosed(true).withErrorCondition("amqp:resource-deleted", "gone")
                .queue();
            peer.expectDetach().withHandle(0).withClosed(true);
            peer.expectClose().respond();
        }

        /** Numbers of deliveries leave some out. */
        static void gap(ProtonTestServer peer) {
            receiver(peer, 10, 0);
            transfer(peer, 0).withBody().withData(new byte[40]).also().queue();
            expectAccepted(peer, 0);
            transfer(peer, 5).withBody().withData(new byte[40]).also().queue();
            peer.expectClose();
        }

        /** A delivery on a handle that nothing is attached to. */
        static void unattached(ProtonTestServer peer) {
            receiver(peer, 10, 0);
            transfer(peer, 0).withHandle(9).withBody().withData(new byte[40]).also().queue();
            peer.expectClose().withError("amqp:not-allowed");
        }
    }

    /** Peers of `bellows broker`. */
    static class Clients {
        static void login(ProtonTestClient peer, String password, byte outcome) {
            peer.remoteSASLHeader().queue();
            peer.expectSASLHeader();
            peer.expectSaslMechanisms();
            peer.remoteSaslInit().withMechanism("PLAIN").withInitialResponse(("\0guest\0" + password).getBytes())
                .queue();
            peer.expectSaslOutcome().withCode(outcome);
        }

        static void header(ProtonTestClient peer) {
            login(peer, "guest", (byte) 0);
            peer.remoteAMQPHeader().queue();
            peer.expectAMQPHeader();
        }

        static void open(ProtonTestClient peer, int frame, int idle, int window) {
            header(peer);
            peer.remoteOpen().withContainerId("script").withMaxFrameSize(frame).withIdleTimeOut(idle).queue();
            peer.expectOpen().withContainerId(notNullValue());
            peer.remoteBegin().withNextOutgoingId(0).withIncomingWindow(window).withOutgoingWindow(100).queue();
            peer.expectBegin().withRemoteChannel(0);
        }

        static void sender(ProtonTestClient peer, String queue) {
            open(peer, 65_536, 0, 100);
            attachSender(peer, "/queues/" + queue);
            peer.expectAttach().ofReceiver().withHandle(0).withTarget(notNullValue());
            peer.expectFlow().withHandle(0).withLinkCredit(greaterThan(UnsignedInteger.valueOf(9)));
        }

        static void attachSender(ProtonTestClient peer, String address) {
            peer.remoteAttach().ofSender().withName("sender " + address).withHandle(0).withInitialDeliveryCount(0)
                .withSource().withAddress("script").and().withTarget().withAddress(address).and().queue();
        }

        static void attachReceiver(ProtonTestClient peer, String address, int handle) {
            peer.remoteAttach().ofReceiver().withName("receiver " + address).withHandle(handle).withSource()
                .withAddress(address).and().withTarget().withAddress("script").and().queue();
        }

        static void receiver(ProtonTestClient peer, String queue, int handle) {
            attachReceiver(peer, "/queues/" + queue, handle);
            peer.expectAttach().ofSender().withHandle(handle).withInitialDeliveryCount(0).withSource(notNullValue());
        }

        static TransferInjectAction transfer(ProtonTestClient peer, int id) {
            return peer.remoteTransfer().withHandle(0).withDeliveryId(id).withDeliveryTag(new byte[] {(byte) id})
                .withMessageFormat(0);
        }

        static void expectAccepted(ProtonTestClient peer, int first, int last) {
            peer.expectDisposition().withRole(true).withFirst(first)
                .withLast(first == last ? anyOf(nullValue(), is(UnsignedInteger.valueOf(last)))
                    : is(UnsignedInteger.valueOf(last)))
                .withSettled(true).withState().accepted();
        }

        static void expectTransfers(ProtonTestClient peer, int handle, int from, int to) {
            for (int id = from; id < to; id++) {
                peer.expectTransfer().withHandle(handle).withDeliveryId(id).withSettled(flag(false))
                    .withMore(flag(false)).withNonNullPayload();
            }
        }

        static void close(ProtonTestClient peer) {
            peer.remoteClose().queue();
            peer.expectClose().withError(nullValue());
        }

        /** Three messages, and three in one piece, which get one answer. */
        static void accepted(ProtonTestClient peer) {
            sender(peer, "accepted");
            for (int id = 0; id < 3; id++) {
                transfer(peer, id).withBody().withData(new byte[40]).also().queue();
                expectAccepted(peer, id, id);
            }
            for (int id = 3; id < 6; id++) {
                var message = transfer(peer, id).withBody().withData(new byte[40]).also();
                (id < 5 ? message.deferred() : message).queue();
            }
            expectAccepted(peer, 3, 5);
            close(peer);
        }

        /** A message in parts comes back whole, behind those of the queue; a given up one does not come. */
        static void parts(ProtonTestClient peer) {
            sender(peer, "parts");
            transfer(peer, 0).withMore(true).withPayload(HEAD).queue();
            peer.remoteEmptyFrame().queue();
            peer.remoteTransfer().withHandle(0).withMore(true).withPayload(new byte[20]).queue();
            peer.remoteTransfer().withHandle(0).withPayload(new byte[20]).queue();
            expectAccepted(peer, 0, 0);
            transfer(peer, 1).withMore(true).withPayload(HEAD).queue();
            peer.remoteTransfer().withHandle(0).withAborted(true).queue();
            receiver(peer, "parts", 1);
            flow(peer, 100, 0, 5).withHandle(1).withDeliveryCount(0).withLinkCredit(10).queue();
            expectTransfers(peer, 1, 0, 3);
            peer.expectTransfer().withHandle(1).withDeliveryId(3).withMessage().withHeader()
                .withFirstAcquirer(true).also().withData(new byte[40]);
            close(peer);
        }

        /** Messages of three frames each, of which the window lets two come at a time. */
        static void window(ProtonTestClient peer) {
            open(peer, 512, 0, 2);
            receiver(peer, "window", 0);
            flow(peer, 2, 0, 0).withHandle(0).withDeliveryCount(0).withLinkCredit(10).queue();
            for (int frame = 0; frame < 9; frame++) {
                peer.expectTransfer().withMore(flag(frame % 3 < 2)).withNonNullPayload();
                if (frame % 2 == 1) {
                    flow(peer, 2, frame + 1, 0).queue();
                }
            }
            close(peer);
        }

        static void credit_of_one(ProtonTestClient peer) {
            open(peer, 65_536, 0, 100);
            receiver(peer, "credit_of_one", 0);
            for (int id = 0; id < 3; id++) {
                flow(peer, 100, id, 0).withHandle(0).withDeliveryCount(id).withLinkCredit(1).queue();
                expectTransfers(peer, 0, id, id + 1);
                // Nothing else has come before the answer.
                flow(peer, 100, id + 1, 0).withEcho(true).queue();
                peer.expectFlow().withHandle(nullValue()).withNextOutgoingId(id + 1);
            }
            close(peer);
        }

        /** Credit that the broker has no message for goes. */
        static void drained(ProtonTestClient peer) {
            open(peer, 65_536, 0, 100);
            receiver(peer, "drained", 0);
            flow(peer, 100, 0, 0).withHandle(0).withDeliveryCount(0).withLinkCredit(10).withDrain(true).queue();
            expectTransfers(peer, 0, 0, 3);
            peer.expectFlow().withHandle(0).withDeliveryCount(10).withLinkCredit(0);
            close(peer);
        }

        /** What is released comes again; what is accepted, rejected, or no good to this client does not. */
        static void outcomes(ProtonTestClient peer) {
            open(peer, 65_536, 0, 100);
            receiver(peer, "outcomes", 0);
            flow(peer, 100, 0, 0).withHandle(0).withDeliveryCount(0).withLinkCredit(3).queue();
            expectTransfers(peer, 0, 0, 3);
            settle(peer, true, 0, 0, true).withState().accepted().queue();
            settle(peer, true, 1, 1, true).withState().released().queue();
            settle(peer, true, 2, 2, true).withState().rejected("amqp:internal-error", "no").queue();
            flow(peer, 100, 3, 0).withHandle(0).withDeliveryCount(3).withLinkCredit(2).queue();
            expectTransfers(peer, 0, 3, 4);
            settle(peer, true, 3, 3, true).withState().modified(true, true).queue();
            flow(peer, 100, 4, 0).withHandle(0).withDeliveryCount(4).withLinkCredit(5).withDrain(true).queue();
            peer.expectFlow().withHandle(0).withDeliveryCount(9).withLinkCredit(0);
            close(peer);
        }

        /** What is not settled when its link ends comes to the next one. */
        static void returned(ProtonTestClient peer) {
            open(peer, 65_536, 0, 100);
            receiver(peer, "returned", 0);
            flow(peer, 100, 0, 0).withHandle(0).withDeliveryCount(0).withLinkCredit(3).queue();
            expectTransfers(peer, 0, 0, 3);
            peer.remoteDetach().withHandle(0).withClosed(true).withErrorCondition("amqp:internal-error", "mine")
                .queue();
            peer.expectDetach().withHandle(0).withClosed(true).withError(nullValue());
            receiver(peer, "returned", 1);
            flow(peer, 100, 3, 0).withHandle(1).withDeliveryCount(0).withLinkCredit(3).queue();
            expectTransfers(peer, 1, 3, 6);
            peer.remoteEnd().queue();
            peer.expectEnd().withError(nullValue());
            close(peer);
        }

        /** From a queue, and to an exchange, that do not exist. */
        static void refused(ProtonTestClient peer) {
            open(peer, 65_536, 0, 100);
            attachReceiver(peer, "/queues/none", 0);
            peer.expectAttach().ofSender().withSource(nullValue());
            peer.expectDetach().withHandle(0).withClosed(true).withError("amqp:not-found");
            peer.remoteDetach().withHandle(0).withClosed(true).queue();
            attachSender(peer, "/exchanges/none");
            peer.expectAttach().ofReceiver().withTarget(nullValue());
            peer.expectDetach().withHandle(0).withClosed(true).withError("amqp:not-found");
            peer.remoteDetach().withHandle(0).withClosed(true).queue();
            close(peer);
        }

        /** The coordinator declares a transaction; of one that nobody has declared it knows nothing. */
        static void transactions(ProtonTestClient peer) {
            var unknown = new byte[] {1, 2};
            sender(peer, "transactions");
            peer.remoteAttach().ofSender().withName("coordinator").withHandle(1).withInitialDeliveryCount(0)
                .withSource().withAddress("script").and().withCoordinator().and().queue();
            peer.expectAttach().ofReceiver().withHandle(1).withCoordinator(notNullValue());
            peer.expectFlow().withHandle(1).withLinkCredit(greaterThan(UnsignedInteger.valueOf(9)));
            peer.remoteDeclare().withHandle(1).withDeliveryId(0).withDeliveryTag(new byte[] {0}).queue();
            peer.expectDisposition().withRole(true).withFirst(0).withSettled(true)
                .withState(instanceOf(Declared.class));
            transfer(peer, 1).withState().transactional().withTxnId(unknown).also()
                .withBody().withData(new byte[40]).also().queue();
            expectUnknown(peer, 1);
            peer.remoteDischarge().withTxnId(unknown).withFail(false).withHandle(1).withDeliveryId(2)
                .withDeliveryTag(new byte[] {2}).queue();
            expectUnknown(peer, 2);
            close(peer);
        }

        static void expectUnknown(ProtonTestClient peer, int id) {
            peer.expectDisposition().withRole(true).withFirst(id).withSettled(true)
                .withState().rejected("amqp:transaction:unknown-id", notNullValue());
        }

        /** This client wants to hear something every 500 ms. */
        static void idle(ProtonTestClient peer) {
            open(peer, 65_536, 500, 100);
            for (int frame = 0; frame < 4; frame++) {
                peer.expectEmptyFrame();
            }
            close(peer);
        }

        static void stranger(ProtonTestClient peer) {
            login(peer, "wrong", (byte) 1);
        }

        /** The session begins before the connection is open. */
        static void begun_early(ProtonTestClient peer) {
            header(peer);
            peer.remoteBegin().onChannel(0).queue();
            peer.expectOpen().optional();
            peer.expectClose().withError("amqp:not-allowed");
        }

        static void unattached(ProtonTestClient peer) {
            sender(peer, "unattached");
            transfer(peer, 0).withHandle(9).withBody().withData(new byte[40]).also().queue();
            peer.expectClose().withError(notNullValue());
        }

        /** Two links at one handle. */
        static void attached_twice(ProtonTestClient peer) {
            sender(peer, "attached_twice");
            attachSender(peer, "/queues/accepted");
            peer.expectClose().withError("amqp:not-allowed");
        }
    }
}
