package millrace.integrity.model;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPublicKeySpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import millrace.integrity.IntegrityException;
import millrace.integrity.OwnerOnly;

/// A private key that signs models: on P-256, P-384 or P-521, from a PEM file that only its owner may read.
///
/// Both forms that OpenSSL writes are read, `PRIVATE KEY` and `EC PRIVATE KEY`, and both must hold the public point, as
/// OpenSSL's do.
public final class ModelSigningKey {
    private static final String FORMAT = "MODEL_KEY_FORMAT";
    private static final byte[] EC_PUBLIC_KEY = {0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 2, 1};
    private static final int SEQUENCE = 0x30;
    private static final int INTEGER = 2;
    private static final int BIT_STRING = 3;
    private static final int OCTET_STRING = 4;
    private static final int OBJECT_ID = 6;
    private static final int CURVE = 0xa0;
    private static final int POINT = 0xa1;

    private final ECPrivateKey secret;
    private final ECPublicKey key;
    private final EcKeys.Curve curve;

    private ModelSigningKey(ECPrivateKey secret, ECPublicKey key, EcKeys.Curve curve) {
        this.secret = secret;
        this.key = key;
        this.curve = curve;
    }

    /// Reads a key file.
    ///
    /// @throws IntegrityException `KEY_FILE_MODE` if others may read it, `MODEL_KEY_FORMAT`
    public static ModelSigningKey load(Path file) throws IOException {
        OwnerOnly.require(file);
        if (Files.size(file) > 1 << 16) {
            throw new IntegrityException(FORMAT, file + ": expected a key file, got " + Files.size(file) + " bytes");
        }
        return parse(Files.readString(file, StandardCharsets.UTF_8), file.toString());
    }

    /// @param curve `p256`, `p384` or `p521`
    public static ModelSigningKey generate(String curve, SecureRandom random) {
        EcKeys.Curve wanted = Stream.of(EcKeys.Curve.values())
                .filter(known -> known.name().toLowerCase(Locale.ROOT).equals(curve))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("curve: expected one of "
                        + Stream.of(EcKeys.Curve.values())
                                .map(known -> known.name().toLowerCase(Locale.ROOT))
                                .collect(Collectors.joining(", "))
                        + ", got \"" + curve + "\""));
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
            generator.initialize(new ECGenParameterSpec(wanted.javaName), random);
            KeyPair pair = generator.generateKeyPair();
            return new ModelSigningKey((ECPrivateKey) pair.getPrivate(), (ECPublicKey) pair.getPublic(), wanted);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every JDK makes keys on " + wanted.javaName, e);
        }
    }

    /// Writes the key to a new file, readable by its owner alone.
    public void save(Path file) throws IOException {
        OwnerOnly.create(file, secretPem().getBytes(StandardCharsets.UTF_8));
    }

    /// @param where names the text in messages
    static ModelSigningKey parse(String text, String where) {
        String pem = text.indexOf("-----BEGIN EC PARAMETERS-----") >= 0
                ? text.substring(Math.max(0, text.indexOf("-----END EC PARAMETERS-----")))
                : text;
        EcKeys.Pem block = EcKeys.Pem.first(pem, where, FORMAT);
        byte[] der = switch (block.type()) {
            case "PRIVATE KEY" -> innerKey(block.der(), where);
            case "EC PRIVATE KEY" -> block.der();
            default -> throw new IntegrityException(FORMAT,
                    "%s: expected a block PRIVATE KEY or EC PRIVATE KEY, got %s; give the private key, without a passphrase"
                            .formatted(where, block.type()));
        };
        return of(der, where);
    }

    /// The curve's own structure out of the wrapping that all kinds of keys share.
    private static byte[] innerKey(byte[] der, String where) {
        Der outer = new Der(der, where).enter(SEQUENCE);
        outer.take(INTEGER);
        Der algorithm = outer.enter(SEQUENCE);
        if (!Arrays.equals(algorithm.take(OBJECT_ID), EC_PUBLIC_KEY)) {
            throw new IntegrityException(FORMAT,
                    where + ": expected a key on an elliptic curve, got another kind; make one by millrace model keygen");
        }
        byte[] curve = algorithm.take(OBJECT_ID);
        byte[] inner = outer.take(OCTET_STRING);
        curveOf(curve, where);
        return inner;
    }

    private static EcKeys.Curve curveOf(byte[] oid, String where) {
        return Stream.of(EcKeys.Curve.values()).filter(curve -> Arrays.equals(curve.oid(), oid)).findFirst()
                .orElseThrow(() -> new IntegrityException(FORMAT,
                        where + ": expected a key on P-256, P-384 or P-521, got another curve; make one by millrace model keygen"));
    }

    private static ModelSigningKey of(byte[] der, String where) {
        Der fields = new Der(der, where).enter(SEQUENCE);
        fields.take(INTEGER);
        byte[] number = fields.take(OCTET_STRING);
        EcKeys.Curve curve = Stream.of(EcKeys.Curve.values()).filter(known -> known.octets == number.length).findFirst()
                .orElseThrow(() -> new IntegrityException(FORMAT,
                        where + ": expected a key on P-256, P-384 or P-521, got a number of %d bytes; make one by millrace model keygen"
                                .formatted(number.length)));
        if (fields.next() == CURVE && curveOf(fields.enter(CURVE).take(OBJECT_ID), where) != curve) {
            throw new IntegrityException(FORMAT, where + ": expected one curve, got two that differ; make a new key");
        }
        if (fields.next() != POINT) {
            throw new IntegrityException(FORMAT,
                    where + ": expected the public point in the key, got none; write it by openssl ec -in KEY -out KEY2");
        }
        byte[] point = fields.enter(POINT).take(BIT_STRING);
        if (point.length != 2 + 2 * curve.octets || point[0] != 0 || point[1] != 4) {
            throw new IntegrityException(FORMAT,
                    where + ": expected an uncompressed public point, got another form; write it by openssl ec -conv_form uncompressed");
        }
        try {
            KeyFactory factory = KeyFactory.getInstance("EC");
            ECPoint at = new ECPoint(new BigInteger(1, Arrays.copyOfRange(point, 2, 2 + curve.octets)),
                    new BigInteger(1, Arrays.copyOfRange(point, 2 + curve.octets, point.length)));
            var key = (ECPublicKey) factory.generatePublic(new ECPublicKeySpec(at, curve.parameters()));
            var secret = (ECPrivateKey) factory.generatePrivate(new PKCS8EncodedKeySpec(wrapped(number, point, curve)));
            ModelSigningKey both = new ModelSigningKey(secret, key, curve);
            both.requirePair(where);
            return both;
        } catch (GeneralSecurityException e) {
            throw new IntegrityException(FORMAT, where + ": expected a key on " + curve.title
                    + ", got numbers that are none; make a new key", e);
        }
    }

    /// A public point that is not this key's would give signatures that nobody can verify.
    private void requirePair(String where) throws GeneralSecurityException {
        byte[] probe = where.getBytes(StandardCharsets.UTF_8);
        Signature check = Signature.getInstance(curve.signature);
        check.initVerify(key);
        check.update(probe);
        if (!check.verify(sign(probe))) {
            throw new IntegrityException(FORMAT,
                    where + ": expected the public point of this key, got another; write it by openssl ec -in KEY -out KEY2");
        }
    }

    /// An ECDSA signature in DER, with the hash of the key's curve.
    byte[] sign(byte[] bytes) {
        try {
            Signature signature = Signature.getInstance(curve.signature);
            signature.initSign(secret);
            signature.update(bytes);
            return signature.sign();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every JDK signs with " + curve.signature, e);
        }
    }

    /// The public key as PEM text: what a trust store holds.
    public String publicPem() {
        return EcKeys.pem(key);
    }

    /// Digest of [#publicPem], 64 hexadecimal digits.
    public String hint() {
        return EcKeys.hint(key);
    }

    private String secretPem() {
        byte[] number = fixed(secret.getS());
        byte[] x = fixed(key.getW().getAffineX());
        byte[] y = fixed(key.getW().getAffineY());
        byte[] point = ByteBuffer.allocate(2 + 2 * curve.octets).put((byte) 0).put((byte) 4).put(x).put(y).array();
        return EcKeys.Pem.text("PRIVATE KEY", wrapped(number, point, curve));
    }

    private byte[] fixed(BigInteger number) {
        byte[] bytes = number.toByteArray();
        byte[] fixed = new byte[curve.octets];
        int length = Math.min(bytes.length, fixed.length);
        System.arraycopy(bytes, bytes.length - length, fixed, fixed.length - length, length);
        return fixed;
    }

    private static byte[] wrapped(byte[] number, byte[] point, EcKeys.Curve curve) {
        byte[] inner = der(SEQUENCE, der(INTEGER, new byte[] {1}), der(OCTET_STRING, number),
                der(POINT, der(BIT_STRING, point)));
        return der(SEQUENCE, der(INTEGER, new byte[] {0}),
                der(SEQUENCE, der(OBJECT_ID, EC_PUBLIC_KEY), der(OBJECT_ID, curve.oid())), der(OCTET_STRING, inner));
    }

    private static byte[] der(int tag, byte[]... parts) {
        int length = Stream.of(parts).mapToInt(part -> part.length).sum();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(tag);
        if (length > 0xff) {
            out.write(0x82);
            out.write(length >> 8);
        } else if (length > 0x7f) {
            out.write(0x81);
        }
        out.write(length);
        Stream.of(parts).forEach(out::writeBytes);
        return out.toByteArray();
    }

    /// Reads the few elements that a key consists of, one after another.
    private static final class Der {
        private final byte[] bytes;
        private final String where;
        private int at;

        Der(byte[] bytes, String where) {
            this.bytes = bytes;
            this.where = where;
        }

        /// Tag of the next element; -1 at the end.
        int next() {
            return at < bytes.length ? bytes[at] & 255 : -1;
        }

        Der enter(int tag) {
            return new Der(take(tag), where);
        }

        /// Contents of the next element, which must have this tag.
        byte[] take(int tag) {
            if (next() != tag || at + 2 > bytes.length) {
                throw broken();
            }
            int length = bytes[at + 1] & 255;
            int start = at + 2;
            if (length > 0x80) {
                int octets = length - 0x80;
                if (octets > 2 || start + octets > bytes.length) {
                    throw broken();
                }
                length = new BigInteger(1, Arrays.copyOfRange(bytes, start, start + octets)).intValue();
                start += octets;
            }
            if (length > bytes.length - start) {
                throw broken();
            }
            at = start + length;
            return Arrays.copyOfRange(bytes, start, at);
        }

        private IntegrityException broken() {
            return new IntegrityException(FORMAT, where + ": expected a key in DER, got other bytes; copy the file whole");
        }
    }
}
