package millrace.streams.drill;

/// What a drill sends.
///
/// @param run begins every request id; a second drill on the same topics takes another
/// @param perSecond records, at even distances whatever the answers do
/// @param maxTokens of each answer
/// @param poisonEvery every so-manieth record is no prompt; 0 for none
/// @param sessions conversations that the prompts belong to in turn, so many keys; 0 gives each prompt its own
public record DrillSettings(String run, double perSecond, int maxTokens, int poisonEvery, int sessions) {
    public static DrillSettings of(String run, double perSecond) {
        return new DrillSettings(run, perSecond, 16, 0, 0);
    }

    public DrillSettings withMaxTokens(int tokens) {
        return new DrillSettings(run, perSecond, tokens, poisonEvery, sessions);
    }

    public DrillSettings withPoisonEvery(int records) {
        return new DrillSettings(run, perSecond, maxTokens, records, sessions);
    }

    public DrillSettings withSessions(int count) {
        return new DrillSettings(run, perSecond, maxTokens, poisonEvery, count);
    }
}
