package millrace.integrity.model;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.interfaces.ECPublicKey;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;
import org.jspecify.annotations.Nullable;

/// The public keys that may sign models, and what each may sign.
///
/// A store is one PEM file, or a directory: every file in it that ends in `.pem`, `.pub` or `.key.pub` is a key, and
/// `policy.json`, if there, narrows them. A key that the policy does not name is not narrowed.
public final class TrustStore {
    /// Name of the file that narrows the keys of a directory.
    public static final String POLICY = "policy.json";

    private static final String FORMAT = "MODEL_KEY_FORMAT";
    private static final int MAX_BYTES = 1 << 16;

    private final String where;
    private final List<Key> keys;

    private TrustStore(String where, List<Key> keys) {
        this.where = where;
        this.keys = List.copyOf(keys);
    }

    /// What a policy says of one key.
    ///
    /// @param notBefore from when on it is accepted, by the clock of who verifies
    /// @param notAfter until when it is accepted
    /// @param models names that it may sign, the signed subject's; a trailing `*` stands for any end; empty for all
    record Rule(@Nullable Instant notBefore, @Nullable Instant notAfter, boolean revoked, List<String> models) {
        static final Rule NONE = new Rule(null, null, false, List.of());
    }

    /// @param source file that it comes from
    record Key(String source, ECPublicKey key, String hint, Rule rule) {}

    /// Reads a file or directory.
    ///
    /// @throws IntegrityException `MODEL_KEY_FORMAT`
    public static TrustStore load(Path path) throws IOException {
        if (!Files.exists(path)) {
            throw new IntegrityException(FORMAT,
                    path + ": expected a public key in PEM or a directory of them, got nothing there; check the path");
        }
        if (!Files.isDirectory(path)) {
            return new TrustStore(path.toString(), List.of(read(path, Map.of())));
        }
        List<Path> files;
        try (Stream<Path> all = Files.list(path)) {
            files = all.filter(TrustStore::isKeyFile).sorted().toList();
        }
        if (files.isEmpty()) {
            throw new IntegrityException(FORMAT,
                    path + ": expected files that end in .pem or .pub, got none; put the public keys there");
        }
        Map<String, Rule> rules = rules(path.resolve(POLICY));
        List<Key> keys = new ArrayList<>();
        for (Path file : files) {
            keys.add(read(file, rules));
        }
        return new TrustStore(path.toString(), keys);
    }

    private static boolean isKeyFile(Path file) {
        String name = String.valueOf(file.getFileName());
        return Files.isRegularFile(file) && !name.startsWith(".") && (name.endsWith(".pem") || name.endsWith(".pub"));
    }

    private static Key read(Path file, Map<String, Rule> rules) throws IOException {
        String text = new String(head(file), StandardCharsets.UTF_8);
        ECPublicKey key = EcKeys.parse(text, file.toString(), FORMAT);
        String hint = EcKeys.hint(key);
        return new Key(file.toString(), key, hint, rules.getOrDefault(hint, Rule.NONE));
    }

    private static byte[] head(Path file) throws IOException {
        try (InputStream in = Files.newInputStream(file)) {
            return in.readNBytes(MAX_BYTES + 1);
        }
    }

    private static Map<String, Rule> rules(Path file) throws IOException {
        if (!Files.exists(file)) {
            return Map.of();
        }
        StrictJson policy = StrictJson.object(head(file), file.toString(), FORMAT);
        if (!policy.text("format").equals("model-trust/v1")) {
            throw policy.problem("format: expected model-trust/v1, got another; write the policy anew");
        }
        Map<String, Rule> rules = new HashMap<>();
        for (StrictJson key : policy.objects("keys")) {
            Rule rule = new Rule(instant(key, "not_before"), instant(key, "not_after"),
                    key.has("revoked") && key.flag("revoked"), key.has("models") ? List.of(key.texts("models")) : List.of());
            if (rules.put(key.text("hint"), rule) != null) {
                throw key.problem("hint: expected each key once, got it twice; keep one of them");
            }
        }
        return rules;
    }

    private static @Nullable Instant instant(StrictJson key, String field) {
        if (!key.has(field)) {
            return null;
        }
        try {
            return Instant.parse(key.text(field));
        } catch (DateTimeException e) {
            throw key.problem(field + ": expected a time such as 2026-01-31T00:00:00Z, got \""
                    + Shown.text(key.text(field)) + "\"; correct it");
        }
    }

    /// The key that a bundle says to be signed with.
    ///
    /// @throws IntegrityException `MODEL_KEY_UNKNOWN`
    Key select(ModelBundle bundle) {
        String hint = bundle.hint();
        return keys.stream().filter(key -> key.hint().equals(hint)).findFirst()
                .orElseThrow(() -> new IntegrityException("MODEL_KEY_UNKNOWN",
                        "%s: expected a key of %s (%s), got the hint %s; add that key if you trust it".formatted(
                                bundle.where(), where,
                                keys.stream().map(Key::hint).collect(Collectors.joining(", ")), hint)));
    }

    /// Refuses what the policy does not let the key do.
    ///
    /// @param model name of the signed subject
    /// @throws IntegrityException `MODEL_KEY_REFUSED`
    static void admit(Key key, String model, Instant now) {
        Rule rule = key.rule();
        String problem = null;
        if (rule.revoked()) {
            problem = "expected a key that is not revoked, got one that is";
        } else if (rule.notBefore() != null && now.isBefore(rule.notBefore())) {
            problem = "expected a time from " + rule.notBefore() + " on, got " + now;
        } else if (rule.notAfter() != null && now.isAfter(rule.notAfter())) {
            problem = "expected a time up to " + rule.notAfter() + ", got " + now;
        } else if (!rule.models().isEmpty() && rule.models().stream().noneMatch(pattern -> matches(pattern, model))) {
            problem = "expected one of the models " + rule.models() + ", got \"" + Shown.text(model) + "\"";
        }
        if (problem != null) {
            throw new IntegrityException("MODEL_KEY_REFUSED",
                    "%s: %s by %s; sign with another key, or change the policy".formatted(key.source(), problem, POLICY));
        }
    }

    private static boolean matches(String pattern, String name) {
        return pattern.endsWith("*") ? name.startsWith(pattern.substring(0, pattern.length() - 1)) : name.equals(pattern);
    }
}
