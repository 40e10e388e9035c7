package millrace.engine;

/// A request that can never be served as it stands. Codes: `PROMPT_*`, `PARAM_RANGE`, `PARAM_LIMIT`,
/// `CONTEXT_OVERFLOW`, `TOOLS_INVALID`, `ROLE_UNKNOWN`, `TPL_UNKNOWN`, `TPL_TOKEN_MISSING`,
/// `RESPONSE_FORMAT`, `TOOL_CHOICE`, `GUIDE_*`.
public final class InvalidRequestException extends EngineException {
    private static final long serialVersionUID = 1L;

    public InvalidRequestException(String code, String message) {
        super(code, message);
    }
}
