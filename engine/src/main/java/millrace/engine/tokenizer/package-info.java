/// Text to token ids and back, and the conversations' formats.
///
/// ```
///  tokenizer.json ──▶ TokenizerJson ──┐                    ┌─▶ AddedTokens ─▶ Splitter ─▶ BytePairMerger ─▶ ids
///  tiktoken.model ──▶ TiktokenModel ──┴──▶ BpeTokenizer ───┤
///                                                          └─▶ bytes(id) ─▶ IncrementalDecoder ─▶ text
///  messages ──▶ ChatFormat ──▶ Rendered(text, ids)
/// ```
///
/// No template and no regular expression of a checkpoint is executed unchecked: a chat template is only recognised, a
/// split pattern is matched by code whose time and stack are bounded.
@NullMarked
package millrace.engine.tokenizer;

import org.jspecify.annotations.NullMarked;
