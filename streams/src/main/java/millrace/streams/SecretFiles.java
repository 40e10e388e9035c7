package millrace.streams;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.kafka.common.config.ConfigException;

/// A directory with one file for each secret, as container platforms mount them: a file's name is the configuration key,
/// its text the value. Nothing in a value points to a file, so no value can ask for one that it should not see.
final class SecretFiles {
    static final String KEY = "secrets.dir";
    private static final int MAX_BYTES = 64 << 10;

    private SecretFiles() {}

    /// The files whose names are keys; line ends at the end of a file do not count.
    ///
    /// @throws ConfigException naming the file, never what it holds
    static Map<String, String> read(Path directory, Predicate<String> isKey) {
        List<Path> files;
        try (Stream<Path> all = Files.list(directory)) {
            files = all.filter(file -> isKey.test(file.getFileName().toString()) && Files.isRegularFile(file)).sorted().toList();
        } catch (IOException e) {
            throw new ConfigException("config key \"" + KEY + "\": expected a directory that can be read, got " + directory + " ("
                    + e.getClass().getSimpleName() + ")");
        }
        Map<String, String> values = new HashMap<>();
        for (Path file : files) {
            values.put(file.getFileName().toString(), text(file));
        }
        return values;
    }

    private static String text(Path file) {
        try {
            if (Files.size(file) > MAX_BYTES) {
                throw new ConfigException("secret " + file + ": expected at most " + MAX_BYTES + " bytes, got " + Files.size(file));
            }
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(Files.readAllBytes(file))).toString().stripTrailing();
        } catch (CharacterCodingException e) {
            throw new ConfigException("secret " + file + ": expected UTF-8, got other bytes");
        } catch (IOException e) {
            throw new ConfigException("secret " + file + ": cannot be read (" + e.getClass().getSimpleName()
                    + "); let the service's user read it");
        }
    }
}
