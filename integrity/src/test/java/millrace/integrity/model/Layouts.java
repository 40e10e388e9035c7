package millrace.integrity.model;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.security.Signature;
import java.security.spec.ECGenParameterSpec;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.LongConsumer;
import java.util.stream.Collectors;
import millrace.integrity.Digest;

/// Writes bundles in the layouts that tools of other versions have written, from nothing but the JDK: what the code under
/// test writes is not trusted here.
final class Layouts {
    /// A version of the tool.
    enum Version {
        V0_3_1, V1_0_0, V1_0_1, V1_1_0
    }

    private Layouts() {}

    static KeyPair key(String curve) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec(curve));
            return generator.generateKeyPair();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    static String pem(KeyPair key) {
        return "-----BEGIN PUBLIC KEY-----\n"
                + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(key.getPublic().getEncoded())
                + "\n-----END PUBLIC KEY-----\n";
    }

    static String hint(KeyPair key) {
        return hex(pem(key).getBytes(StandardCharsets.US_ASCII));
    }

    static String hex(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    /// One entry of the list.
    record Entry(String name, String digest) {
        static Entry of(String name, byte[] content) {
            return new Entry(name, hex(content));
        }
    }

    static String root(List<Entry> entries) {
        return hex(HexFormat.of().parseHex(entries.stream().map(Entry::digest).collect(Collectors.joining())));
    }

    /// The statement as the versions indent it; older ones do not name what they ignored.
    static String statement(Version version, String model, List<Entry> entries) {
        String serialization = switch (version) {
            case V0_3_1, V1_0_0 -> "{\n   \"allow_symlinks\": false,\n   \"hash_type\": \"sha256\",\n   \"method\": \"files\"\n  }";
            case V1_0_1 -> "{\n   \"method\": \"files\",\n   \"hash_type\": \"sha256\",\n   \"allow_symlinks\": false\n  }";
            case V1_1_0 -> "{\n   \"method\": \"files\",\n   \"hash_type\": \"sha256\",\n   \"allow_symlinks\": false,\n"
                    + "   \"ignore_paths\": [\n    \".git\",\n    \"model.sig\",\n    \"skipped\"\n   ]\n  }";
        };
        return statement(model, root(entries), entries, serialization);
    }

    static String statement(String model, String root, List<Entry> entries, String serialization) {
        String resources = entries.stream()
                .map(one -> "   {\"name\": \"%s\", \"algorithm\": \"sha256\", \"digest\": \"%s\"}".formatted(one.name(), one.digest()))
                .collect(Collectors.joining(",\n"));
        return """
                {
                 "_type": "https://in-toto.io/Statement/v1",
                 "subject": [{"name": "%s", "digest": {"sha256": "%s"}}],
                 "predicateType": "https://model_signing/signature/v1.0",
                 "predicate": {
                  "resources": [
                %s
                  ],
                  "serialization": %s
                 }
                }""".formatted(model, root, resources, serialization);
    }

    static byte[] signature(KeyPair key, String hash, String payload) {
        try {
            byte[] bytes = payload.getBytes(StandardCharsets.UTF_8);
            Signature signature = Signature.getInstance(hash + "withECDSA");
            signature.initSign(key.getPrivate());
            signature.update(("DSSEv1 28 application/vnd.in-toto+json " + bytes.length + " ").getBytes(StandardCharsets.UTF_8));
            signature.update(bytes);
            return signature.sign();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    static String bundle(Version version, KeyPair key, String hash, String payload) {
        String material = version == Version.V1_1_0
                ? "{\"publicKey\": {\"hint\": \"" + hint(key) + "\"}, \"tlogEntries\": []}"
                : "{\"publicKey\": {\"rawBytes\": \"" + base64(pem(key).getBytes(StandardCharsets.US_ASCII))
                        + "\", \"keyDetails\": \"PKIX_ECDSA_P384_SHA_384\"}}";
        String keyId = version == Version.V1_1_0 ? ", \"keyid\": \"\"" : version == Version.V1_0_0 ? "" : ", \"keyid\": null";
        return bundle(material, payload, signature(key, hash, payload), keyId);
    }

    static String bundle(String material, String payload, byte[] signature, String keyId) {
        return """
                {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": %s, "dsseEnvelope": \
                {"payload": "%s", "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "%s"%s}]}}"""
                .formatted(material, base64(payload.getBytes(StandardCharsets.UTF_8)), base64(signature), keyId);
    }

    static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    /// Files in memory.
    record Memory(Map<String, byte[]> files) implements ModelContents {
        @Override
        public SortedMap<String, Long> sizes() {
            SortedMap<String, Long> sizes = new TreeMap<>();
            files.forEach((name, bytes) -> sizes.put(name, (long) bytes.length));
            return sizes;
        }

        @Override
        public Digest sha256(String path, long start, long end, LongConsumer progress) {
            byte[] bytes = java.util.Arrays.copyOfRange(files.get(path), (int) start, (int) end);
            progress.accept(bytes.length);
            return Digest.sha256(bytes);
        }
    }
}
