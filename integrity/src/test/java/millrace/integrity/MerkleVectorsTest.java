package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// The proofs over the eight leaves of RFC 6962's reference tests that the verifiers of other projects are probed with
/// (transparency-dev/merkle, testdata, Apache-2.0: the hashes are facts), built and verified here; and what those probes do
/// to them, each of which must be refused.
class MerkleVectorsTest {
    private static final List<Digest> LEAVES = Stream.of("", "00", "10", "2021", "3031", "40414243", "5051525354555657",
                    "606162636465666768696a6b6c6d6e6f")
            .map(hex -> Digest.sha256(new byte[] {0}, HexFormat.of().parseHex(hex))).toList();
    private static final Digest GARBAGE = Digest.sha256("garbage");

    private static Digest root(int size) {
        return MerkleFrontier.root(LEAVES, 0, size);
    }

    private static List<Digest> path(String base64) {
        return Arrays.stream(base64.split(" ")).map(MerkleVectorsTest::digest).toList();
    }

    private static Digest digest(String base64) {
        return Digest.of(Base64.getDecoder().decode(base64));
    }

    @ParameterizedTest
    @CsvSource({
        "0, 8, XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=, bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=,"
                + "lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c= Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= "
                + "a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ=",
        "5, 8, XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=, QnGia+DYqE8L1UyMMC58s6O10fpngKQLzOKHNHfatlg=,"
                + "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms= yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA= "
                + "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
        "2, 3, rra8/idLcKFPsGel5VeCZNsPqbUa9eC6FZFY8yngbnc=, ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c=,"
                + "+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=",
        "1, 5, Tju7H3tHjc/nH7YxYxUZo7yhLJrvyhYSv85ME6hiZNQ=, lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c=,"
                + "bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0= Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= "
                + "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms="
    })
    void inclusion(int index, int size, String root, String leaf, String path) {
        InclusionProof proof = InclusionProof.build(LEAVES.subList(0, size), index);
        assertThat(proof.path()).isEqualTo(path(path));
        assertThat(LEAVES.get(index)).isEqualTo(digest(leaf));
        assertThat(proof.verify(digest(leaf), digest(root))).isEqualTo(Verdict.VERIFIED);
        for (long other : new long[] {index - 1, index + 1, index ^ 2}) {
            refuses("index " + other, new InclusionProof(other, size, proof.path()).verify(LEAVES.get(index), root(size)));
        }
        for (long other : new long[] {size * 2L, size / 2}) {
            refuses("size " + other, new InclusionProof(index, other, proof.path()).verify(LEAVES.get(index), root(size)));
        }
        refuses("root", proof.verify(LEAVES.get(index), GARBAGE));
        refuses("leaf", proof.verify(GARBAGE, root(size)));
        refuses("swapped", proof.verify(root(size), LEAVES.get(index)));
        for (List<Digest> altered : altered(proof.path(), List.of(LEAVES.get(index), root(size), GARBAGE))) {
            refuses("path", new InclusionProof(index, size, altered).verify(LEAVES.get(index), root(size)));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "1, 8, bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=, XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=,"
                + "lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c= Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= "
                + "a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ=",
        "6, 8, duZ9rbzfHhDht03cYIq9L5jfsW+851J3tSMqEn8gh+8=, XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=,"
                + "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o= yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA= "
                + "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
        "2, 5, +sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=, Tju7H3tHjc/nH7YxYxUZo7yhLJrvyhYSv85ME6hiZNQ=,"
                + "Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4= vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=",
        "6, 7, duZ9rbzfHhDht03cYIq9L5jfsW+851J3tSMqEn8gh+8=, 3bib5AOAnjJXUNPSY814kpwpQreUKjS3fhIslZSnTIw=,"
                + "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o= sIaT7C5yFZcTBkHoIR5+7cy0wmQTlj7ubB4u0W/7Gl8= "
                + "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc="
    })
    void consistency(int older, int newer, String olderRoot, String newerRoot, String path) {
        ConsistencyProof proof = ConsistencyProof.build(LEAVES.subList(0, newer), older);
        assertThat(proof.path()).isEqualTo(path(path));
        Digest before = digest(olderRoot);
        Digest after = digest(newerRoot);
        assertThat(proof.verify(before, after)).isEqualTo(Verdict.VERIFIED);
        for (long other : new long[] {older - 1, older + 1, older ^ 2}) {
            if (other > 0) {
                refuses("older size " + other, new ConsistencyProof(other, newer, proof.path()).verify(before, after));
            }
        }
        for (long other : new long[] {newer * 2L, newer / 2}) {
            refuses("newer size " + other, new ConsistencyProof(older, other, proof.path()).verify(before, after));
        }
        refuses("older root", proof.verify(GARBAGE, after));
        refuses("newer root", proof.verify(before, GARBAGE));
        refuses("swapped", proof.verify(after, before));
        refuses("empty", new ConsistencyProof(older, newer, List.of()).verify(before, after));
        for (List<Digest> altered : altered(proof.path(), List.of(before, after, GARBAGE))) {
            refuses("path", new ConsistencyProof(older, newer, altered).verify(before, after));
        }
    }

    /// One bit of each hash, each hash missing, neighbours exchanged, and strangers before and behind.
    private static List<List<Digest>> altered(List<Digest> path, List<Digest> strangers) {
        List<List<Digest>> all = new ArrayList<>();
        for (int i = 0; i < path.size(); i++) {
            List<Digest> flipped = new ArrayList<>(path);
            byte[] bytes = path.get(i).bytes();
            bytes[4 / 8] ^= 1 << 4;
            flipped.set(i, Digest.of(bytes));
            all.add(flipped);
            List<Digest> shorter = new ArrayList<>(path);
            shorter.remove(i);
            all.add(shorter);
            if (i > 0) {
                List<Digest> exchanged = new ArrayList<>(path);
                Collections.swap(exchanged, i - 1, i);
                all.add(exchanged);
            }
        }
        for (Digest stranger : strangers) {
            all.add(Stream.concat(Stream.of(stranger), path.stream()).toList());
            all.add(Stream.concat(path.stream(), Stream.of(stranger)).toList());
        }
        return all;
    }

    private static void refuses(String what, Verdict verdict) {
        assertThat(verdict).as(what).isInstanceOfSatisfying(Verdict.Refuted.class,
                refuted -> assertThat(refuted.code()).isEqualTo("PROOF_INVALID"));
    }
}
