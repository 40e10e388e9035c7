package millrace.streams.gateway;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Pattern;
import millrace.streams.openai.ApiException;
import org.jspecify.annotations.Nullable;

/// Who may ask, and as which tenant.
///
/// A line of the file is `TENANT KEY` or `TENANT sha256:DIGEST` with the digest of the key in hexadecimal; the tenant `-` is
/// that of prompts without one. Empty lines and lines that begin with `#` are passed over. Keys are kept as digests and
/// compared in constant time, all of them each time; neither the file nor a key is ever said.
final class ApiKeys {
    private static final Pattern TENANT = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
    private static final int LEAST_CHARS = 16;
    private static final String HASHED = "sha256:";

    private record Key(byte[] digest, @Nullable String tenant) {}

    /// A caller that may go on.
    ///
    /// @param tenant null for who has none
    record Caller(@Nullable String tenant) {}

    private final @Nullable List<Key> keys;

    private ApiKeys(@Nullable List<Key> keys) {
        this.keys = keys;
    }

    /// Asks nobody for a key.
    static ApiKeys none() {
        return new ApiKeys(null);
    }

    /// @throws IllegalArgumentException `GATEWAY_KEYS`, naming file and line but never what is in it
    static ApiKeys read(Path file) {
        List<Key> keys = new ArrayList<>();
        try {
            requirePrivate(file);
            List<String> lines = Files.readAllLines(file, StandardCharsets.UTF_8);
            for (int i = 0; i < lines.size(); i++) {
                String line = lines.get(i).strip();
                if (!line.isEmpty() && !line.startsWith("#")) {
                    keys.add(key(line, file + ": line " + (i + 1)));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException("GATEWAY_KEYS: " + file + ": cannot be read: " + e.getClass().getSimpleName(), e);
        }
        if (keys.isEmpty()) {
            throw new IllegalArgumentException("GATEWAY_KEYS: " + file + ": expected at least one key, got none");
        }
        return new ApiKeys(List.copyOf(keys));
    }

    private static void requirePrivate(Path file) throws IOException {
        PosixFileAttributeView view = Files.getFileAttributeView(file, PosixFileAttributeView.class);
        if (view != null && view.readAttributes().permissions().stream().anyMatch(permission ->
                permission != PosixFilePermission.OWNER_READ && permission != PosixFilePermission.OWNER_WRITE)) {
            throw new IllegalArgumentException("GATEWAY_KEYS: " + file + ": expected mode 0600, got more rights; run chmod 600 on it");
        }
    }

    private static Key key(String line, String where) {
        String[] parts = line.split("\\s+");
        if (parts.length != 2 || !parts[0].equals("-") && !TENANT.matcher(parts[0]).matches()) {
            throw new IllegalArgumentException("GATEWAY_KEYS: " + where
                    + ": expected a tenant (1 to 64 of A-Z a-z 0-9 . _ : -, or - for none) and a key, got something else");
        }
        String tenant = parts[0].equals("-") ? null : parts[0];
        if (parts[1].startsWith(HASHED)) {
            String digest = parts[1].substring(HASHED.length());
            if (!digest.matches("[0-9a-f]{64}")) {
                throw new IllegalArgumentException("GATEWAY_KEYS: " + where + ": expected 64 hexadecimal digits after sha256:, got others");
            }
            return new Key(HexFormat.of().parseHex(digest), tenant);
        }
        if (parts[1].length() < LEAST_CHARS) {
            throw new IllegalArgumentException("GATEWAY_KEYS: " + where + ": expected a key of at least " + LEAST_CHARS + " characters, got "
                    + parts[1].length() + "; openssl rand -hex 24 makes one");
        }
        return new Key(sha256(parts[1]), tenant);
    }

    private static byte[] sha256(String text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    /// Who is asking.
    ///
    /// @param authorization the header's value, or null
    /// @throws ApiException 401
    Caller caller(@Nullable String authorization) {
        List<Key> known = keys;
        if (known == null) {
            return new Caller(null);
        }
        boolean bearer = authorization != null && authorization.regionMatches(true, 0, "Bearer ", 0, 7);
        byte[] digest = sha256(bearer ? authorization.substring(7).strip() : "");
        Key found = null;
        for (Key key : known) {
            if (MessageDigest.isEqual(key.digest(), digest)) {
                found = key;
            }
        }
        if (!bearer || found == null) {
            throw new ApiException(401, "invalid_request_error", "invalid_api_key", null,
                    bearer ? "the API key is not known here" : "expected the header Authorization: Bearer KEY, got none", -1);
        }
        return new Caller(found.tenant());
    }
}
