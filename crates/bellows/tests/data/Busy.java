// Three parts of work and one, in a thread whose name is not harmless.
public class Busy {
    static long sink;
    static void spin(long ms) {
        long end = System.nanoTime() + ms * 1_000_000L;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 20_000; i++) { sink += Long.bitCount(i * 31L) ^ i; }
        }
    }
    static void heavy() { spin(75); }
    static void light() { spin(25); }
    public static void main(String[] arguments) throws Exception {
        Thread worker = new Thread(() -> {
            for (int i = 0; i < 30; i++) { heavy(); light(); }
        }, "worker <1>");
        worker.start();
        worker.join();
    }
}
