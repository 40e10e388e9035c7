package millrace.integrity.model;

import java.nio.charset.StandardCharsets;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.interfaces.ECKey;
import java.security.interfaces.ECPublicKey;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECParameterSpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.Optional;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;

/// The three curves that model signatures use, and public keys on them as PEM text.
final class EcKeys {
    static final String PUBLIC = "PUBLIC KEY";

    private EcKeys() {}

    /// A curve with the hash that belongs to it.
    ///
    /// @param octets of a coordinate
    enum Curve {
        P256("secp256r1", "SHA256withECDSA", 32, "P-256", new byte[] {0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 3, 1, 7}),
        P384("secp384r1", "SHA384withECDSA", 48, "P-384", new byte[] {0x2b, (byte) 0x81, 4, 0, 34}),
        P521("secp521r1", "SHA512withECDSA", 66, "P-521", new byte[] {0x2b, (byte) 0x81, 4, 0, 35});

        final String javaName;
        final String signature;
        final int octets;
        final String title;
        private final byte[] oid;

        Curve(String javaName, String signature, int octets, String title, byte[] oid) {
            this.javaName = javaName;
            this.signature = signature;
            this.octets = octets;
            this.title = title;
            this.oid = oid;
        }

        /// Contents of the object identifier in DER.
        byte[] oid() {
            return oid.clone();
        }

        ECParameterSpec parameters() {
            try {
                AlgorithmParameters parameters = AlgorithmParameters.getInstance("EC");
                parameters.init(new ECGenParameterSpec(javaName));
                return parameters.getParameterSpec(ECParameterSpec.class);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("every JDK has the curve " + javaName, e);
            }
        }

        /// The curve of the key, if it is one of the three.
        static Optional<Curve> of(ECKey key) {
            for (Curve curve : values()) {
                ECParameterSpec known = curve.parameters();
                ECParameterSpec given = key.getParams();
                if (known.getCurve().equals(given.getCurve()) && known.getGenerator().equals(given.getGenerator())
                        && known.getOrder().equals(given.getOrder()) && known.getCofactor() == given.getCofactor()) {
                    return Optional.of(curve);
                }
            }
            return Optional.empty();
        }
    }

    /// The public key of a PEM text.
    ///
    /// @throws IntegrityException with the code given
    static ECPublicKey parse(String pem, String where, String code) {
        Pem block = Pem.first(pem, where, code);
        if (!block.type().equals(PUBLIC)) {
            throw new IntegrityException(code, "%s: expected a block %s, got %s; write the public key by openssl ec -pubout"
                    .formatted(where, PUBLIC, block.type()));
        }
        try {
            if (KeyFactory.getInstance("EC").generatePublic(new X509EncodedKeySpec(block.der())) instanceof ECPublicKey key
                    && Curve.of(key).isPresent()) {
                return key;
            }
        } catch (GeneralSecurityException e) {
            throw new IntegrityException(code,
                    where + ": expected a public key on P-256, P-384 or P-521, got something else; use such a key", e);
        }
        throw new IntegrityException(code,
                where + ": expected a public key on P-256, P-384 or P-521, got another curve; use such a key");
    }

    /// The text that a hint is the digest of: lines of 64 characters, each with its newline.
    static String pem(ECPublicKey key) {
        return Pem.text(PUBLIC, key.getEncoded());
    }

    /// Lower-case hexadecimal SHA-256 of [#pem].
    static String hint(ECPublicKey key) {
        return Digest.sha256(pem(key)).hex();
    }

    /// One block of a PEM file.
    record Pem(String type, byte[] der) {
        private static final String BEGIN = "-----BEGIN ";
        private static final String DASHES = "-----";
        private static final int MAX_CHARS = 1 << 16;

        /// The first block; what stands before it is a comment.
        static Pem first(String text, String where, String code) {
            if (text.length() > MAX_CHARS) {
                throw new IntegrityException(code,
                        "%s: expected at most %d characters, got %d".formatted(where, MAX_CHARS, text.length()));
            }
            int begin = text.startsWith(BEGIN) ? 0 : text.indexOf("\n" + BEGIN) + 1;
            int typeEnd = begin == 0 && !text.startsWith(BEGIN) ? -1 : text.indexOf(DASHES, begin + BEGIN.length());
            if (typeEnd < 0) {
                throw new IntegrityException(code, where + ": expected a PEM block, got none; write one by openssl");
            }
            String type = text.substring(begin + BEGIN.length(), typeEnd);
            int end = text.indexOf("-----END " + type + DASHES, typeEnd);
            if (end < 0) {
                throw new IntegrityException(code, where + ": expected the end of its PEM block, got none; copy it whole");
            }
            String body = text.substring(typeEnd + DASHES.length(), end).replaceAll("[\\r\\n\\t ]", "");
            try {
                return new Pem(type, Base64.getDecoder().decode(body));
            } catch (IllegalArgumentException e) {
                throw new IntegrityException(code, where + ": expected base64 in its PEM block, got other text;"
                        + " copy it whole, without a passphrase", e);
            }
        }

        static String text(String type, byte[] der) {
            Base64.Encoder lines = Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.US_ASCII));
            return BEGIN + type + "-----\n" + lines.encodeToString(der) + "\n-----END " + type + "-----\n";
        }
    }
}
