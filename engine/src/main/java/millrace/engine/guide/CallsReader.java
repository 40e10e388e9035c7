package millrace.engine.guide;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import millrace.engine.InvalidRequestException;
import millrace.engine.ResponseFormat;
import millrace.engine.reply.CallForm;
import millrace.engine.reply.CallSyntax;
import millrace.engine.reply.ToolSchemas;
import org.jspecify.annotations.Nullable;

/// Makes a form of the tools that a request declares.
final class CallsReader {
    /// What no format's markup can be confused with.
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_./-]{1,128}");

    private final CallSyntax syntax;
    private final ToolSchemas schemas;
    private int need;

    private CallsReader(CallSyntax syntax, ToolSchemas schemas) {
        this.syntax = syntax;
        this.schemas = schemas;
    }

    /// @param syntax of the chat format; null if it has no calls
    /// @throws InvalidRequestException TOOL_CHOICE, TOOLS_INVALID; of a tool's schema GUIDE_SCHEMA, GUIDE_UNSUPPORTED, GUIDE_UNSATISFIABLE,
    ///         GUIDE_LIMIT
    static Guide read(ResponseFormat.Calls format, @Nullable CallSyntax syntax) {
        if (syntax == null) {
            throw new InvalidRequestException("TOOL_CHOICE", "tool_choice: expected a model whose chat format has calls of tools, got one without;"
                    + " leave out tool_choice and strict");
        }
        CallsReader reader = new CallsReader(syntax, ToolSchemas.of(format.tools()));
        List<CallsRule.Tool> tools = reader.tools(format);
        CallsRule rule = new CallsRule(syntax, tools, format.required(), format.only() == null);
        return Guide.of(rule, reader.need + 1);
    }

    private List<CallsRule.Tool> tools(ResponseFormat.Calls format) {
        JsonNode array;
        try {
            array = Guide.MAPPER.readTree(format.tools());
        } catch (JacksonException e) {
            throw invalid("JSON, nested at most " + Guide.MAX_DEPTH + " deep, keys once", "other text");
        }
        if (!array.isArray()) {
            throw invalid("a JSON array", Refusal.kind(array));
        }
        List<CallsRule.Tool> tools = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (JsonNode declared : array) {
            JsonNode function = declared.path("function").isObject() ? declared.path("function") : declared;
            String name = function.path("name").asText();
            if (!NAME.matcher(name).matches() || !names.add(name)) {
                throw invalid("names of 1 to 128 characters of A-Z a-z 0-9 _ . / -, none twice, where calls are held to a form",
                        "\"" + Refusal.cut(name) + "\"");
            }
            if (format.only() == null || format.only().equals(name)) {
                tools.add(tool(name, function.path("parameters")));
            }
        }
        if (tools.isEmpty()) {
            throw new InvalidRequestException("TOOL_CHOICE", "tool_choice: expected one of the declared tools, got "
                    + (format.only() == null ? "none at all" : "\"" + Refusal.cut(format.only()) + "\"") + "; declare it, or name another");
        }
        return tools;
    }

    private CallsRule.Tool tool(String name, JsonNode parameters) {
        boolean pairs = syntax.form() == CallForm.GLM;
        boolean none = parameters.isMissingNode() || parameters.isNull();
        JsonNode schema = none ? Guide.MAPPER.valueToTree(Map.of("type", "object", "additionalProperties", false)) : parameters;
        try {
            Shape shape = SchemaReader.read(schema, pairs ? AnyJson.GUARDED : AnyJson.PLAIN);
            need = Math.max(need, Linker.need(shape));
            boolean objects = shape.rules().stream().allMatch(rule -> rule instanceof ObjectRule);
            if (!objects || shape.depth() >= Guide.MAX_DEPTH || pairs && shape.rules().size() != 1) {
                throw Refusal.schema("#", pairs ? "one object" : "an object", "values of other kinds");
            }
            if (!pairs) {
                return new CallsRule.Tool(name, shape, null);
            }
            ObjectRule object = (ObjectRule) shape.rules().getFirst();
            return new CallsRule.Tool(name, null, new PairsRule(object, key -> schemas.types(name, key), syntax.lineBreak()));
        } catch (InvalidRequestException e) {
            throw new InvalidRequestException(e.code(), e.getMessage().replaceFirst("^response_format: schema at ",
                    "tools: parameters of " + name + " at "));
        }
    }

    private static InvalidRequestException invalid(String expected, String got) {
        return new InvalidRequestException("TOOLS_INVALID", "tools: expected " + expected + ", got " + got);
    }
}
