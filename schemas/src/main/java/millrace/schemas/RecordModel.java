package millrace.schemas;

import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.specific.SpecificData;

/// Avro's view of the compiled-in records: it knows these classes and looks none up by name.
///
/// Avro finds the class of a record by the name in its schema, and a schema comes from outside. Avro refuses classes
/// that the process has not declared trusted; here the names are a closed list, so that nothing needs to be declared.
public final class RecordModel extends SpecificData {
    private static final RecordModel INSTANCE = new RecordModel();

    private static final Map<String, Class<?>> CLASSES = Map.ofEntries(
            entry(Prompt.getClassSchema(), Prompt.class),
            entry(Message.getClassSchema(), Message.class),
            entry(ToolCall.getClassSchema(), ToolCall.class),
            entry(Sampling.getClassSchema(), Sampling.class),
            entry(Completion.getClassSchema(), Completion.class),
            entry(FinishReason.getClassSchema(), FinishReason.class),
            entry(Usage.getClassSchema(), Usage.class),
            entry(Timings.getClassSchema(), Timings.class),
            entry(AuditPosition.getClassSchema(), AuditPosition.class),
            entry(Hash.getClassSchema(), Hash.class),
            entry(AttestationRecord.getClassSchema(), AttestationRecord.class),
            entry(AuditEvent.getClassSchema(), AuditEvent.class),
            entry(AuditVerdict.getClassSchema(), AuditVerdict.class),
            entry(TenantRef.getClassSchema(), TenantRef.class),
            entry(PreviousLog.getClassSchema(), PreviousLog.class),
            entry(SuspectRange.getClassSchema(), SuspectRange.class),
            entry(PruneMark.getClassSchema(), PruneMark.class),
            entry(ComputeDevice.getClassSchema(), ComputeDevice.class),
            entry(CheckpointRecord.getClassSchema(), CheckpointRecord.class),
            entry(AlarmRecord.getClassSchema(), AlarmRecord.class),
            entry(Control.getClassSchema(), Control.class),
            entry(ControlKind.getClassSchema(), ControlKind.class),
            entry(SaltRecord.getClassSchema(), SaltRecord.class),
            entry(Reply.getClassSchema(), Reply.class),
            entry(TokenLogprob.getClassSchema(), TokenLogprob.class),
            entry(TopLogprob.getClassSchema(), TopLogprob.class),
            entry(Delta.getClassSchema(), Delta.class),
            entry(DeltaKind.getClassSchema(), DeltaKind.class));

    private RecordModel() {
        super(RecordModel.class.getClassLoader());
    }

    /// The model of all records in the catalogue.
    public static RecordModel instance() {
        return INSTANCE;
    }

    @Override
    public Class<?> getClass(Schema schema) {
        return switch (schema.getType()) {
            case RECORD, ENUM, FIXED -> CLASSES.get(schema.getFullName());
            default -> super.getClass(schema);
        };
    }

    private static Map.Entry<String, Class<?>> entry(Schema schema, Class<?> type) {
        return Map.entry(schema.getFullName(), type);
    }
}
