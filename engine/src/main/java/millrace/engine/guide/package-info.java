/// Holds a completion to a form: one JSON value, of a schema where there is one, or calls of tools.
///
/// ```
///  schema ── SchemaReader ──▶ Shape, Rule                what may stand where; nothing that it does not understand
///  bytes  ── Frame, State, Place                         how far a text has come: a stack of sets of places in rules
///  tokens ── TokenTrie, MaskTable ──▶ Mask               which tokens lead on, for the whole vocabulary at once
///  sequence ── GuideRun                                  one generation's way, token by token
/// ```
///
/// Two properties carry everything. What is allowed can always be finished: a place exists only while some document goes on from
/// it, in the depth that is left. And what is finished is valid: a document ends only where its rule is complete.
@NullMarked
package millrace.engine.guide;

import org.jspecify.annotations.NullMarked;
