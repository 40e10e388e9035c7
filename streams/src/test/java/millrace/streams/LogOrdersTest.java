package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.TenantKey;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.schemas.SaltRecord;
import millrace.schemas.SuspectRange;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Salts are kept under the tenants' keys, and orders destroy them, withdraw leaves and begin epochs; the log verifies.
class LogOrdersTest {
    private static final String ORIGIN = "millrace.test/cluster-1/llm.audit/0/0";
    /// Before the first answer two leaves say what serves.
    private static final long FIRST = 2;

    @TempDir
    private Path directory;

    private ServiceDriver service;

    @BeforeEach
    void start() {
        service = new ServiceDriver(directory, Map.of());
    }

    @AfterEach
    void stop() {
        service.close();
    }

    private void answer(String id, String tenant) {
        service.send(ServiceDriver.prompt(id, "question " + id).setTenant(tenant).build());
        service.answerAll();
    }

    private static Control.Builder order(ControlKind kind) {
        return Control.newBuilder().setKind(kind).setIssuedMs(1L);
    }

    private static Control leaves(ControlKind kind, long from, long to, String reason) {
        return order(kind).setRequestId("a").setOrigin(ORIGIN).setFromSeq(from).setToSeq(to).setReason(reason).build();
    }

    private List<KeyValue<Bytes, byte[]>> keys() {
        List<KeyValue<Bytes, byte[]>> found = new ArrayList<>();
        try (var all = service.store(TenantKeys.STORE).all()) {
            all.forEachRemaining(found::add);
        }
        return found;
    }

    /// As who holds the audit key and may read the store's changelog would.
    private byte[] open(SaltRecord record) {
        byte[] id = record.getKeyId().array();
        KeyValue<Bytes, byte[]> entry = keys().stream()
                .filter(kept -> Arrays.equals(Arrays.copyOfRange(kept.key.get(), 16, 24), id)).findFirst().orElseThrow();
        return TenantKey.unwrap(entry.value, id, service.signer).open(record);
    }

    private AttestationRecord last() {
        return service.leaf(service.leaves.size() - 1);
    }

    @Test
    void keepsTheSaltOfEachAnswerUnderAKeyOfItsTenant() {
        answer("a", "acme");
        answer("b", "acme");
        answer("c", null);
        service.send(ServiceDriver.prompt("d", "question").setTenant("no tenant!").build());
        service.turn();
        assertThat(service.leaves).hasSize(4);
        assertThat(service.salts).as("who is no tenant has no key").hasSize(3);
        assertThat(keys()).hasSize(2);
        for (int i = 0; i < 3; i++) {
            Completion completion = service.completion(i);
            SaltRecord record = service.salt(i);
            byte[] salt = open(record);
            assertThat(salt).isEqualTo(completion.getSalt().array());
            assertThat(Commitment.opens(Digest.of(service.leaf(i).getCompletionCommit()), Commitment.Kind.COMPLETION, salt,
                    completion.getText().getBytes(StandardCharsets.UTF_8))).isTrue();
            assertThat(new String(service.salts.get(i).key(), StandardCharsets.UTF_8)).isEqualTo(ORIGIN + "/" + (FIRST + i));
            assertThat(record.getRequestId()).isEqualTo(completion.getRequestId());
            assertThat(record.getTenantRef().array()).isEqualTo(service.leaf(i).getTenantRef().bytes());
        }
        assertThat(service.salt(0).getKeyId()).isEqualTo(service.salt(1).getKeyId()).isNotEqualTo(service.salt(2).getKeyId());
        service.verify();
    }

    @Test
    void keepsNoSaltsWhenTold() {
        service.close();
        service = new ServiceDriver(directory, Map.of("audit.salts", "false"));
        answer("a", "acme");
        assertThat(service.salts).isEmpty();
        assertThat(keys()).isEmpty();
        service.order(leaves(ControlKind.ERASE_REQUEST, FIRST, FIRST, ""));
        assertThat(last().getEvent()).isEqualTo(AuditEvent.RETRACT);
        service.verify();
    }

    @Test
    void erasesTheSaltOfOneRequest() {
        answer("a", "acme");
        answer("b", "acme");
        service.order(leaves(ControlKind.ERASE_REQUEST, FIRST, FIRST, ""));
        assertThat(service.salts).hasSize(3);
        assertThat(service.salts.getLast().value()).isNull();
        assertThat(service.salts.getLast().key()).isEqualTo(service.salts.getFirst().key());
        AttestationRecord leaf = last();
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.RETRACT);
        assertThat(leaf.getSuspect()).isEqualTo(new SuspectRange(ORIGIN, FIRST, FIRST, "ERASURE"));
        assertThat(leaf.getDetail()).isEqualTo("scope=request");
        assertThat(leaf.getRequestId()).isEqualTo("a");
        assertThat(leaf.getInTopic()).isEqualTo("llm.control");
        assertThat(leaf.getInOffset()).isZero();
        assertThat(leaf.getOutTopic()).isEmpty();
        assertThat(service.counter("millrace.control.records", "result", "done")).isEqualTo(1);
        service.verify();
    }

    @Test
    void erasesATenantByDestroyingItsKeyAndMakesANewOneWhenItComesBack() {
        answer("a", "acme");
        answer("b", "other");
        SaltRecord before = service.salt(0);
        byte[] wrapped = keys().stream().filter(kept -> Arrays.equals(
                Arrays.copyOf(kept.key.get(), 16), service.signer.tenantRef("acme").bytes())).findFirst().orElseThrow().value;
        service.order(order(ControlKind.ERASE_TENANT).setTenant("acme").build());
        assertThat(keys()).hasSize(1);
        assertThat(last().getSuspect()).isEqualTo(new SuspectRange(ORIGIN, 0L, FIRST + 1, "ERASURE"));
        assertThat(last().getDetail()).isEqualTo("scope=tenant");
        assertThat(last().getTenantRef()).isEqualTo(service.leaf(0).getTenantRef());
        answer("c", "acme");
        assertThat(keys()).hasSize(2);
        assertThat(open(service.salt(1))).as("others keep theirs").hasSize(32);
        assertThatThrownBy(() -> TenantKey.unwrap(keys().getFirst().value, before.getKeyId().array(), service.signer))
                .isInstanceOf(IntegrityException.class);
        assertThat(TenantKey.unwrap(wrapped, before.getKeyId().array(), service.signer).open(before))
                .as("whoever kept the wrapped key can still open").hasSize(32);
        service.order(order(ControlKind.ERASE_TENANT).setTenant("").build());
        service.verify();
    }

    @Test
    void withdrawsLeaves() {
        answer("a", "acme");
        answer("b", "acme");
        service.order(leaves(ControlKind.RETRACT, 0, 1, "WEIGHT"));
        assertThat(last().getSuspect()).isEqualTo(new SuspectRange(ORIGIN, 0L, 1L, "WEIGHT"));
        assertThat(last().getDetail()).isEqualTo("scope=range");
        service.verify();
    }

    @Test
    void beginsANewEpochWhenTold() {
        answer("a", "acme");
        service.order(order(ControlKind.NEW_EPOCH).setOrigin(ORIGIN).setReason("OPERATOR").build());
        answer("b", "acme");
        AttestationRecord start = service.leaf(1);
        assertThat(start.getEvent()).isEqualTo(AuditEvent.EPOCH_START);
        assertThat(start.getEpoch()).isEqualTo(1);
        assertThat(start.getSeq()).isZero();
        assertThat(start.getPreviousLog().getReason()).isEqualTo("OPERATOR");
        assertThat(start.getPreviousLog().getSize()).isEqualTo(FIRST + 1);
        assertThat(start.getInTopic()).isEqualTo("llm.control");
        assertThat(service.checkpoint(0).getOrigin()).as("the old log is signed to its end").isEqualTo(ORIGIN);
        assertThat(service.salt(1).getOrigin()).isEqualTo("millrace.test/cluster-1/llm.audit/0/1");
        service.order(leaves(ControlKind.RETRACT, 0, 0, "OPERATOR"));
        assertThat(last().getSuspect().getOrigin()).as("leaves of earlier epochs can be withdrawn").isEqualTo(ORIGIN);
        service.verify();
    }

    @Test
    void refusesWhatCannotBeCarriedOutAndSaysSoInTheLog() {
        answer("a", "acme");
        service.signerFailure = new IllegalStateException("no key");
        refuses("CONTROL_UNSIGNED", order(ControlKind.NEW_EPOCH).setOrigin(ORIGIN).setReason("OPERATOR").build());
        service.signerFailure = null;
        refuses("CONTROL_KIND", order(ControlKind.UNKNOWN).build());
        refuses("CONTROL_KIND", order(ControlKind.CANCEL).setRequestId("r-1").build());
        refuses("CONTROL_RANGE", leaves(ControlKind.RETRACT, 0, 99, "WEIGHT"));
        refuses("CONTROL_RANGE", leaves(ControlKind.RETRACT, 1, 0, "WEIGHT"));
        refuses("CONTROL_RANGE", leaves(ControlKind.RETRACT, -1, 0, "WEIGHT"));
        refuses("CONTROL_RANGE", leaves(ControlKind.ERASE_REQUEST, 0, 1, ""));
        refuses("CONTROL_REASON", leaves(ControlKind.RETRACT, 0, 0, "because"));
        refuses("CONTROL_REASON", order(ControlKind.NEW_EPOCH).setOrigin(ORIGIN).setReason("STATE_LOST").build());
        refuses("CONTROL_TENANT", order(ControlKind.ERASE_TENANT).build());
        refuses("CONTROL_TENANT", order(ControlKind.ERASE_TENANT).setTenant("no tenant!").build());
        for (String origin : List.of("", "millrace.test/cluster-1/llm.audit/1/0", "millrace.test/cluster-2/llm.audit/0/0",
                "millrace.test/cluster-1/llm.audit/0/1")) {
            refuses("CONTROL_ORIGIN", order(ControlKind.RETRACT).setOrigin(origin).setFromSeq(0).setToSeq(0).setReason("WEIGHT").build());
        }
        refuses("CONTROL_ORIGIN", order(ControlKind.NEW_EPOCH).setOrigin("millrace.test/cluster-1/llm.audit/0/1")
                .setReason("OPERATOR").build());
        service.verify();
    }

    private void refuses(String code, Control order) {
        int before = service.leaves.size();
        int salts = service.salts.size();
        service.order(order);
        assertThat(service.leaves).hasSize(before + 1);
        assertThat(last().getEvent()).isEqualTo(AuditEvent.REFUSED);
        assertThat(last().getErrorCode()).isEqualTo(code);
        assertThat(last().getVerdict()).isEqualTo(AuditVerdict.REFUSED);
        assertThat(last().getInTopic()).isEqualTo("llm.control");
        assertThat(service.salts).hasSize(salts);
    }

    @Test
    void passesOverWhatCannotBeRead() {
        answer("a", "acme");
        service.orderRaw(null);
        service.orderRaw(new byte[0]);
        service.orderRaw(new byte[] {0, 0, 0});
        service.orderRaw(new byte[] {0, 0x7f, 0, 0, 1, 2, 3});
        service.orderRaw(service.encode(ServiceDriver.prompt("x", "a prompt").build()));
        SecureRandom random = new SecureRandom();
        for (int i = 0; i < 200; i++) {
            byte[] noise = new byte[random.nextInt(100)];
            random.nextBytes(noise);
            service.orderRaw(noise);
        }
        assertThat(service.counter("millrace.control.records", "result", "unreadable")).isEqualTo(205);
        answer("b", "acme");
        assertThat(service.completions).hasSize(2);
        service.verify();
    }
}
