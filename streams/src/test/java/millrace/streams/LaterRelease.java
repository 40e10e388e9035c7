package millrace.streams;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import millrace.schemas.Prompt;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;

/// Prompts as a later release may write them: with a field that this one does not know.
final class LaterRelease {
    private static final ObjectMapper JSON = new ObjectMapper();

    private LaterRelease() {}

    /// A record's value whose schema is registered under a subject of its own, where no service looks at its start.
    static byte[] prompt(ClusterClient client, String subject, String id) throws IOException {
        ObjectNode later = (ObjectNode) JSON.readTree(Prompt.getClassSchema().toString());
        ((ArrayNode) later.get("fields")).add(JSON.readTree("{\"name\":\"mood\",\"type\":\"string\",\"default\":\"\"}"));
        Schema schema = new Schema.Parser().parse(later.toString());
        int schemaId = client.registry().register(subject, schema);
        GenericData.Record record = new GenericData.Record(schema);
        for (Schema.Field field : schema.getFields()) {
            if (field.hasDefaultValue()) {
                record.put(field.name(), GenericData.get().getDefaultValue(field));
            }
        }
        record.put("request_id", id);
        record.put("prompt", "from the future");
        record.put("mood", "hopeful");
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(named(schemaId));
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        new GenericDatumWriter<GenericData.Record>(schema).write(record, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    /// The first bytes of a record that name its schema.
    static byte[] named(int schemaId) {
        return ByteBuffer.allocate(5).put((byte) 0).putInt(schemaId).array();
    }
}
