import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Random;
import java.util.zip.Deflater;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramIterationValue;
import org.HdrHistogram.HistogramLogReader;
import org.HdrHistogram.HistogramLogWriter;

/**
 * `write DIR SEED FACTOR …` writes logs in every encoding into each folder; `read FILE TAG …` prints the percentiles
 * that Java finds in each.
 */
public class Logs {
    static final long BEGIN = 1_700_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        boolean reads = arguments[0].equals("read");
        for (int i = 1; i < arguments.length; i += reads ? 2 : 3) {
            if (reads) {
                read(arguments[i], arguments[i + 1]);
            } else {
                write(arguments[i] + "/", Long.parseLong(arguments[i + 1]), Double.parseDouble(arguments[i + 2]));
            }
        }
    }

    static Histogram interval(Random random, int second, double factor, String tag) {
        Histogram of = new Histogram(3);
        double level = Math.log(50_000 * factor) + 0.1 * random.nextGaussian();
        for (int i = 0; i < 400; i++) {
            of.recordValue((long) Math.exp(level + 0.4 * random.nextGaussian()));
        }
        of.setStartTimeStamp(BEGIN + 1_000L * second);
        of.setEndTimeStamp(BEGIN + 1_000L * (second + 1));
        of.setTag(tag);
        return of;
    }

    static void write(String dir, long seed, double factor) throws Exception {
        Random random = new Random(seed);
        List<Histogram> plain = new ArrayList<>();
        for (int second = 0; second < 60; second++) {
            plain.add(interval(random, second, factor, null));
        }
        HistogramLogWriter untagged = begin(dir + "untagged.hlog", true);
        plain.forEach(untagged::outputIntervalHistogram);
        untagged.close();
        // As Artemis perf writes them: no start, tags with blanks, two digits.
        HistogramLogWriter artemis = begin(dir + "artemis.hlog", false);
        HistogramLogWriter tagged = begin(dir + "tagged.hlog", true);
        for (int second = 0; second < 60; second++) {
            boolean warmup = second < 5;
            for (String tag : new String[] {"delay send", "send", "transfer"}) {
                Histogram of = interval(random, second, warmup ? 100 * factor : factor, null);
                of.setTag((warmup ? "warmup_" : "") + tag.replace(' ', '_'));
                tagged.outputIntervalHistogram(of);
                Histogram coarse = new Histogram(2);
                coarse.add(of);
                coarse.setStartTimeStamp(of.getStartTimeStamp());
                coarse.setEndTimeStamp(of.getEndTimeStamp());
                coarse.setTag((warmup ? "warmup " : "") + tag);
                artemis.outputIntervalHistogram(coarse);
            }
        }
        artemis.close();
        tagged.close();
        old(dir + "v1.hlog", plain, true);
        old(dir + "v0.hlog", plain, false);
    }

    static HistogramLogWriter begin(String path, boolean withStart) throws Exception {
        HistogramLogWriter log = new HistogramLogWriter(path);
        log.outputLogFormatVersion();
        if (withStart) {
            log.outputStartTime(BEGIN);
        }
        log.outputLegend();
        return log;
    }

    /** A log as HdrHistogram wrote it before version 2.1.7: every count has eight bytes. */
    static void old(String path, List<Histogram> all, boolean v1) throws Exception {
        try (PrintStream log = new PrintStream(new FileOutputStream(path))) {
            log.println("#[Histogram log format version " + (v1 ? "1.2" : "1.01") + "]");
            log.println("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"");
            for (Histogram of : all) {
                log.printf("%.3f,%.3f,%.3f,%s%n", (of.getStartTimeStamp() - BEGIN) / 1e3, 1.0, of.getMaxValue() / 1e6,
                        Base64.getEncoder().encodeToString(encoded(of, v1)));
            }
        }
    }

    static byte[] encoded(Histogram of, boolean v1) {
        ByteBuffer plain = ByteBuffer.allocate(1 << 20);
        plain.putInt((v1 ? 0x1c849301 : 0x1c849308) | 0x80);
        if (v1) {
            plain.putInt(0).putInt(0);
        }
        plain.putInt(of.getNumberOfSignificantValueDigits());
        plain.putLong(of.getLowestDiscernibleValue()).putLong(of.getHighestTrackableValue());
        if (v1) {
            plain.putDouble(1.0);
        } else {
            plain.putLong(of.getTotalCount());
        }
        int header = plain.position();
        for (HistogramIterationValue step : of.allValues()) {
            plain.putLong(step.getCountAtValueIteratedTo());
        }
        if (v1) {
            plain.putInt(4, plain.position() - header);
        }
        Deflater deflater = new Deflater();
        deflater.setInput(plain.array(), 0, plain.position());
        deflater.finish();
        byte[] packed = new byte[1 << 20];
        int length = deflater.deflate(packed);
        ByteBuffer all = ByteBuffer.allocate(8 + length);
        all.putInt((v1 ? 0x1c849302 : 0x1c849309) | 0x80).putInt(length).put(packed, 0, length);
        return all.array();
    }

    static void read(String path, String tag) throws Exception {
        HistogramLogReader log = new HistogramLogReader(path);
        Histogram sum = null;
        EncodableHistogram next;
        while ((next = log.nextIntervalHistogram()) != null) {
            boolean isOurs = tag.isEmpty() ? next.getTag() == null : tag.equals(next.getTag());
            if (isOurs) {
                if (sum == null) {
                    sum = new Histogram(((Histogram) next).getNumberOfSignificantValueDigits());
                }
                sum.add((Histogram) next);
            }
        }
        for (double percentile : new double[] {50, 90, 99, 99.9}) {
            System.out.println(sum.getValueAtPercentile(percentile));
        }
        System.out.println(sum.getMaxValue());
        System.out.println(sum.getTotalCount());
    }
}
