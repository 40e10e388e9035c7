package millrace.streams.simulation;

/// Mistakes that are made on purpose, to see that the simulation finds them.
enum Bug {
    NONE,
    /// A prompt that was taken in is kept in memory only.
    KEEPS_PROMPTS_IN_MEMORY,
    /// The answer is handed on in one transaction, and the pending prompt is deleted in the next.
    DELETES_PENDING_LATE,
    /// The log's state is not put into the store now and then.
    SKIPS_SAVING_THE_LOG,
    /// Leaves are appended outside the transaction, so that an abort does not take them back.
    AUDITS_OUTSIDE_THE_TRANSACTION,
    /// Now and then the leaf of an answer is not sent.
    LOSES_A_LEAF,
    /// What was pending at a restart is handed on twice.
    HANDS_ON_TWICE_AFTER_RESTART,
    /// A process that was thought dead may still commit.
    FENCES_NOBODY,
    /// A log whose state was lost goes on without a look at the audit topic.
    IGNORES_THE_AUDIT_TOPIC,
    /// Which ids were seen is kept in memory only.
    FORGETS_WHAT_WAS_SEEN,
    /// What was cancelled is kept in memory only.
    FORGETS_CANCELLATIONS,
    /// The engine draws its seed anew in each life.
    DRAWS_ANOTHER_SEED_AFTER_RESTART,
    /// The engine's results are handed on although it has found out that they are wrong.
    TRUSTS_EVERY_RESULT,
    /// What the engine finds damaged is not written to the log.
    HIDES_FAULTS,
    /// A prompt's text gets into a log line.
    LOGS_PROMPTS,
    /// Offsets are committed ahead of what was processed.
    COMMITS_AHEAD,
    /// Which process wrote which leaves is not kept.
    FORGETS_WHO_WROTE,
    /// Checkpoints are signed before the leaves that they cover are committed, and outside the transaction.
    SIGNS_TOO_EARLY
}
