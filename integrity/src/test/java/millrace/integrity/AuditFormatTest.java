package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import millrace.schemas.AttestationRecord;
import millrace.schemas.SaltRecord;
import millrace.schemas.Schemas;
import org.apache.avro.Schema;
import org.junit.jupiter.api.Test;

/// The vectors of docs/audit-format.md are what the code does.
class AuditFormatTest {
    private static final String PAGE = read(Path.of("../docs/audit-format.md"));
    private static final byte[] SALT = HexFormat.of().parseHex(one("commitment", "salt"));

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String block(String name) {
        Matcher matcher = Pattern.compile("```vector " + name + "\n(.*?)```", Pattern.DOTALL).matcher(PAGE);
        assertThat(matcher.find()).as("vector %s", name).isTrue();
        return matcher.group(1);
    }

    private static List<String> all(String block, String key) {
        return block(block).lines().filter(line -> line.startsWith(key + " = "))
                .map(line -> line.substring(key.length() + 3)).toList();
    }

    private static String one(String block, String key) {
        assertThat(all(block, key)).as("%s of vector %s", key, block).hasSize(1);
        return all(block, key).getFirst();
    }

    private static String rest(String block, String key) {
        String text = block(block);
        return text.substring(text.indexOf(key + " =\n") + key.length() + 3);
    }

    private static byte[] bytes(String block, String key) {
        return HexFormat.of().parseHex(rest(block, key).replace("\n", ""));
    }

    private static List<Digest> leaves() {
        return Stream.iterate(0, i -> i < 7, i -> i + 1)
                .map(i -> Digest.ofHex(one("tree", "leaf " + i))).toList();
    }

    @Test
    void commitments() {
        assertThat(Commitment.completion(SALT, one("commitment", "completion")).hex())
                .isEqualTo(one("commitment", "completion_commit"));
        int[] ids = Arrays.stream(one("commitment", "token_ids").split(" ")).mapToInt(Integer::parseInt).toArray();
        assertThat(Commitment.tokenIds(SALT, ids).hex()).isEqualTo(one("commitment", "token_ids_commit"));
        List<String> stop = Arrays.stream(one("commitment", "stop").split(" "))
                .map(text -> text.substring(1, text.length() - 1).translateEscapes()).toList();
        assertThat(Commitment.stopList(SALT, stop).hex()).isEqualTo(one("commitment", "stop_commit"));
        List<Integer> digests = Arrays.stream(one("commitment", "logits").split(" ")).map(Integer::parseUnsignedInt).toList();
        assertThat(Commitment.logits(SALT, digests).hex()).isEqualTo(one("commitment", "logits_commit"));
    }

    @Test
    void replies() {
        assertThat(one("reply", "guide")).isEqualTo(TestLog.GUIDE);
        assertThat(Commitment.guide(SALT, TestLog.GUIDE).hex()).isEqualTo(one("reply", "guide_commit"));
        byte[] bytes = ReplyForm.encode(TestLog.reply(7), TestLog.logprobs(7));
        assertThat(bytes).isEqualTo(bytes("reply", "bytes"));
        assertThat(Commitment.commit(Commitment.Kind.REPLY, SALT, bytes).hex()).isEqualTo(one("reply", "reply_commit"));
        assertThat(ReplyForm.commit(SALT, TestLog.reply(7), TestLog.logprobs(7)))
                .hasToString(Digest.ofHex(one("reply", "reply_commit")).toString());
    }

    private static byte[] hex(String block, String key) {
        return HexFormat.of().parseHex(one(block, key));
    }

    @Test
    void salts() {
        NoteSigner master = NoteSigner.parse(one("salt", "key"));
        TenantKey key = TenantKey.unwrap(hex("salt", "wrapped"), hex("salt", "key_id"), master);
        assertThat(key.tenant()).isEqualTo(one("salt", "tenant"));
        SaltRecord record = new SaltRecord(one("salt", "origin"), Long.parseLong(one("salt", "seq")), "r-4",
                ByteBuffer.wrap(master.tenantRef(key.tenant()).bytes()), ByteBuffer.wrap(key.id()),
                ByteBuffer.wrap(hex("salt", "nonce")), ByteBuffer.wrap(hex("salt", "sealed")));
        assertThat(key.open(record)).isEqualTo(hex("salt", "salt")).isEqualTo(SALT);
    }

    private static AttestationRecord leaf(String block) {
        Digest fingerprint = Digest.ofHex(one(block, "fingerprint"));
        byte[] body = bytes(block, "body");
        assertThat(Leaf.hash(fingerprint, body).hex()).isEqualTo(one(block, "hash"));
        byte[] wire = new byte[5 + body.length];
        System.arraycopy(body, 0, wire, 5, body.length);
        var decoded = new WireReader<AttestationRecord>(Schemas.ATTESTATION, null).read(wire);
        assertThat(decoded.fingerprint()).isEqualTo(fingerprint);
        assertThat(decoded.record().getRequestId()).isEqualTo("r-0");
        return decoded.record();
    }

    @Test
    void leafOfTheFirstVersion() {
        AttestationRecord record = leaf("leaf-v1");
        assertThat(record.getSchemaVersion()).isEqualTo(1);
        assertThat(record.getWeightFormat()).isEmpty();
        assertThat(leaves().getFirst().hex()).isEqualTo(one("leaf-v1", "hash"));
    }

    @Test
    void leafOfTheSecondVersion() {
        AttestationRecord record = leaf("leaf-v2");
        assertThat(record.getSchemaVersion()).isEqualTo(2);
        assertThat(record.getWeightFormat()).isEqualTo("bf16+f32");
        assertThat(record.getLogitsCommit()).isNull();
        assertThat(record.getScrubAgeMs()).as("not watched").isEqualTo(-1);
    }

    @Test
    void leafOfTheThirdVersion() {
        AttestationRecord record = leaf("leaf-v3");
        assertThat(record.getSchemaVersion()).isEqualTo(3);
        assertThat(record.getDevice().getName()).isEqualTo("NVIDIA H200");
        assertThat(record.getGuideCommit()).isNull();
        assertThat(record.getReplyCommit()).isNull();
    }

    @Test
    void leafOfTheCurrentVersion() {
        AttestationRecord record = leaf("leaf");
        assertThat(record.getSchemaVersion()).isEqualTo(4);
        assertThat(record).isEqualTo(new TestLog(0).next());
        assertThat(Digest.of(record.getLogitsCommit())).isEqualTo(Commitment.logits(SALT, TestLog.LOGITS));
        assertThat(one("leaf", "fingerprint")).isEqualTo(Schemas.ATTESTATION.fingerprintHex());
        assertThat(Leaf.of(record).body()).isEqualTo(bytes("leaf", "body"));
    }

    @Test
    void fingerprintsOfAllVersions() {
        for (Schema version : Schemas.ATTESTATION.versions()) {
            assertThat(PAGE).contains("| `" + HexFormat.of().formatHex(Schemas.fingerprint(version)) + "` |");
        }
    }

    @Test
    void tree() {
        MerkleFrontier tree = MerkleFrontier.EMPTY;
        for (Digest leaf : leaves()) {
            tree = tree.append(leaf);
            assertThat(tree.root().hex()).isEqualTo(one("tree", "root " + tree.size()));
        }
    }

    @Test
    void state() {
        byte[] bytes = bytes("state", "bytes");
        TreeState state = TreeState.decode(bytes);
        assertThat(state.encode()).isEqualTo(bytes);
        assertThat(state.size()).isEqualTo(Long.parseLong(one("state", "size")));
        assertThat(state.frontier()).isEqualTo(MerkleFrontier.over(leaves()));
        assertThat(state.lastLeaf()).isEqualTo(leaves().getLast());
    }

    @Test
    void note() {
        NoteSigner key = NoteSigner.parse(one("note", "key"));
        assertThat(key.vkey()).isEqualTo(one("note", "vkey"));
        SignedNote note = SignedNote.parse(rest("note", "note"));
        assertThat(note.verify(List.of(NoteVerifier.parse(one("note", "vkey"))))).hasSize(1);
        assertThat(Checkpoint.parse(note.text()).sign(key)).isEqualTo(note);
        assertThat(Checkpoint.parse(note.text()).root()).isEqualTo(MerkleFrontier.over(leaves()).root());
    }

    @Test
    void proof() {
        TlogProof proof = TlogProof.parse(rest("proof", "text"));
        Digest leaf = leaves().get(Integer.parseInt(one("proof", "leaf")));
        assertThat(proof.verify(leaf, List.of(NoteVerifier.parse(one("note", "vkey"))))).isEqualTo(Verdict.VERIFIED);
        assertThat(proof.path()).isEqualTo(InclusionProof.build(leaves(), (int) proof.index()).path());
    }

    @Test
    void consistency() {
        int from = Integer.parseInt(one("consistency", "from"));
        int to = Integer.parseInt(one("consistency", "to"));
        ConsistencyProof proof =
                new ConsistencyProof(from, to, all("consistency", "path").stream().map(Digest::ofHex).toList());
        assertThat(proof).isEqualTo(ConsistencyProof.build(leaves().subList(0, to), from));
        assertThat(proof.verify(Digest.ofHex(one("tree", "root " + from)), Digest.ofHex(one("tree", "root " + to))))
                .isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void growth() {
        ConsistencyText proof = ConsistencyText.parse(rest("growth", "text"));
        int from = Integer.parseInt(one("growth", "from"));
        Checkpoint older = new Checkpoint(
                Checkpoint.parse(proof.checkpoint().text()).origin(), from, Digest.ofHex(one("tree", "root " + from)));
        assertThat(proof.verify(older, Checkpoint.parse(proof.checkpoint().text()))).isEqualTo(Verdict.VERIFIED);
        assertThat(proof.encode()).isEqualTo(rest("growth", "text"));
    }

    @Test
    void cosignature() {
        NoteSigner witness = NoteSigner.parse(one("cosignature", "key"));
        assertThat(witness.vkey()).isEqualTo(one("cosignature", "vkey"));
        SignedNote note = SignedNote.parse(rest("cosignature", "note"));
        assertThat(note.verify(List.of(NoteVerifier.parse(one("cosignature", "vkey"))))).hasSize(1);
        SignedNote ofLog = SignedNote.parse(rest("note", "note"));
        assertThat(ofLog.cosign(witness, Long.parseLong(one("cosignature", "seconds")))).isEqualTo(note);
    }

    /// Every code that the sources give is explained on the page.
    @Test
    void explainsEveryCode() throws IOException {
        Pattern code = Pattern.compile("\"((?:LOG|NOTE|RECON|CHECKPOINT|PROOF|PROVE|KEY_FILE|AUDIT|TREE|FRONTIER"
                + "|ORIGIN|WITNESS|FOLLOW|REPLAY|OPEN|EXPORT|LOTTERY)_[A-Z_]+|EQUIVOCATION)\"");
        try (Stream<Path> files = Files.walk(Path.of("src/main/java"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".java")).toList()) {
                code.matcher(Files.readString(file)).results().forEach(found ->
                        assertThat(PAGE.contains("`" + found.group(1) + "`"))
                                .as("%s of %s is on the page", found.group(1), file).isTrue());
            }
        }
    }
}
