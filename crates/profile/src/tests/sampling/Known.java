/** Work of a known shape: three parts below one method, one part below another. */
public class Known {
    static volatile long sink;

    static long spin(long rounds, long seed) {
        long x = seed;
        for (long i = 0; i < rounds; i++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        return x;
    }

    static long threeParts(long part, long seed) {
        return spin(3 * part, seed) + 1;
    }

    static long onePart(long part, long seed) {
        return spin(part, seed) + 1;
    }

    static long work(long seed) {
        // Another length every time: a period of its own would come into step with the samples'.
        long part = 50_000 + ((seed * 0x9E3779B97F4A7C15L) >>> 47);
        return threeParts(part, seed) + onePart(part, seed);
    }

    static long lateParts(long seed) {
        long x = seed;
        for (int i = 0; i < 100_000; i++) {
            x = x * 31 + (x >>> 5);
        }
        return x;
    }

    static long late(long seed) {
        return lateParts(seed) + 1;
    }

    public static void main(String[] arguments) throws Exception {
        // Compiled before anybody looks.
        for (int i = 0; i < 500; i++) {
            sink += work(i | 1);
        }
        System.out.println("@ready");
        while (System.in.available() == 0) {
            sink += work(sink | 1);
        }
        while (System.in.read() >= 0 && System.in.available() >= 0) {
            for (int i = 0; i < 1_000_000; i++) {
                sink += late(sink | 1);
            }
        }
    }
}
