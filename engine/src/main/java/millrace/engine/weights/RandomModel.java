package millrace.engine.weights;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import millrace.engine.kernel.DType;

/// Writes a checkpoint of random BF16 weights, with config and tokenizer: real sizes without a download.
///
/// Weights are normally distributed, as trained ones nearly are, so that formats which depend on the distribution meet
/// a fair one. They are scaled so that activations keep unit variance; logits stay finite at any depth. A tensor's
/// values depend on the seed, its name and its shape only, so shards of any size hold the same numbers.
public final class RandomModel {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int CHUNK = 1 << 20;

    /// One tensor of the checkpoint.
    ///
    /// @param shape dimensions, outermost first
    public record Tensor(String name, List<Long> shape) {
        public Tensor {
            shape = List.copyOf(shape);
        }

        long elements() {
            return shape.stream().reduce(1L, Math::multiplyExact);
        }

        /// In its file.
        public long bytes() {
            return 2 * elements();
        }

        ShardWriter.Declared declared() {
            return new ShardWriter.Declared(
                    name, DType.BF16, shape.stream().mapToLong(Long::longValue).toArray(), bytes());
        }
    }

    private RandomModel() {}

    /// Writes into a directory that is empty or not there yet.
    ///
    /// @param config what config.json says; the ids that end a turn are added
    /// @param maxShardBytes a new shard is begun rather than exceed this; one tensor may
    public static void write(Path dir, long seed, ObjectNode config, List<Tensor> tensors, long maxShardBytes)
            throws IOException {
        int vocab = config.get("vocab_size").intValue();
        ByteLevelTokenizer.requireVocab(vocab);
        Files.createDirectories(dir);
        try (Stream<Path> entries = Files.list(dir)) {
            if (entries.findAny().isPresent()) {
                throw new IOException(dir + ": expected an empty directory, got one with files; choose another");
            }
        }
        ObjectNode complete = config.deepCopy();
        ByteLevelTokenizer.stopIds(vocab).forEach(complete.withArray("/eos_token_id")::add);
        Files.write(dir.resolve(ModelFiles.CONFIG), JSON.writeValueAsBytes(complete));
        ByteLevelTokenizer.write(dir, vocab);
        List<List<Tensor>> shards = ShardWriter.shards(tensors, Tensor::bytes, maxShardBytes);
        Map<String, String> fileOf = new LinkedHashMap<>();
        for (int s = 0; s < shards.size(); s++) {
            String name = ShardWriter.name(s, shards.size());
            writeShard(dir.resolve(name), shards.get(s), seed);
            shards.get(s).forEach(tensor -> fileOf.put(tensor.name(), name));
        }
        if (shards.size() > 1) {
            long bytes = tensors.stream().mapToLong(Tensor::bytes).sum();
            Files.write(dir.resolve(ModelFiles.INDEX), ShardWriter.index(fileOf, bytes));
        }
    }

    private static void writeShard(Path file, List<Tensor> tensors, long seed) throws IOException {
        ByteBuffer header = ShardWriter.header(tensors.stream().map(Tensor::declared).toList());
        try (FileChannel out = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            long at = header.limit();
            write(out, header, 0);
            for (Tensor tensor : tensors) {
                writeValues(out, at, tensor, seed);
                at += tensor.bytes();
            }
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    /// All processors take part, each with chunks of its own.
    private static void writeValues(FileChannel out, long at, Tensor tensor, long seed) {
        long tensorSeed = seed ^ (long) tensor.name().hashCode() * 0x9E3779B97F4A7C15L;
        short[] values = values(tensor);
        long elements = tensor.elements();
        IntStream.range(0, Math.toIntExact(Math.ceilDiv(elements, (long) CHUNK))).parallel().forEach(chunk -> {
            var random = new SplittableRandom(tensorSeed + chunk * 0xD1B54A32D192ED03L);
            int count = (int) Math.min(CHUNK, elements - (long) chunk * CHUNK);
            ByteBuffer bytes = ByteBuffer.allocate(2 * count).order(ByteOrder.LITTLE_ENDIAN);
            long bits = 0;
            for (int i = 0; i < count; i++) {
                // Four values from one draw.
                bits = (i & 3) == 0 ? random.nextLong() : bits >>> 16;
                bytes.putShort(2 * i, values[(int) bits & 0xffff]);
            }
            try {
                write(out, bytes, at + 2L * chunk * CHUNK);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    private static void write(FileChannel out, ByteBuffer bytes, long at) throws IOException {
        while (bytes.hasRemaining()) {
            at += out.write(bytes, at);
        }
    }

    /// The 65,536 values, equally likely, that a tensor is drawn from.
    private static short[] values(Tensor tensor) {
        String name = tensor.name();
        float mean = 0;
        double deviation;
        if (name.endsWith("e_score_correction_bias")) {
            deviation = 0.02; // a trained router spreads its load
        } else if (name.endsWith(".bias")) {
            deviation = 0.1;
        } else if (tensor.shape().size() == 1) {
            mean = 1;
            deviation = 0.1;
        } else {
            deviation = name.endsWith("embed_tokens.weight") ? 1 : 1 / Math.sqrt(tensor.shape().getLast());
        }
        short[] values = new short[1 << 16];
        for (int i = 0; i < values.length; i++) {
            int raw = Float.floatToRawIntBits((float) (Normal.QUANTILES[i] * deviation) + mean);
            values[i] = (short) (raw + 0x7fff + (raw >>> 16 & 1) >>> 16);
        }
        return values;
    }

    /// Quantiles of the standard normal distribution at (i + ½) / 65536.
    private static final class Normal {
        static final double[] QUANTILES = quantiles();

        private static double[] quantiles() {
            // The distribution function is integrated from the middle outwards, by Simpson's rule over steps that end
            // where the next quantile lies, found by Newton's method: the density is its derivative.
            int n = 1 << 16;
            double[] all = new double[n];
            double x = 0;
            for (int i = n / 2; i < n; i++) {
                double area = (i == n / 2 ? 0.5 : 1.0) / n;
                double step = area / density(x);
                for (int again = 0; again < 8; again++) {
                    double reached = step / 6 * (density(x) + 4 * density(x + step / 2) + density(x + step));
                    step += (area - reached) / density(x + step);
                }
                x += step;
                all[i] = x;
                all[n - 1 - i] = -x;
            }
            return all;
        }

        private static double density(double x) {
            return Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
        }
    }
}
