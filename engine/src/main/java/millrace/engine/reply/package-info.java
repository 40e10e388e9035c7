/// What a completion's text means: answer, reasoning and calls of tools, told apart by the markup of its chat format.
///
/// ```
///  text, in any pieces ──▶ MarkupReader ──┬─▶ Content, Reasoning
///                              │          │
///                              ▼          │
///                     text of one call ──▶ CallReader (GLM, Kimi, JSON) ──▶ Call, or Content if it cannot be read
///                                              ▲
///                                          ToolSchemas
/// ```
///
/// docs/formats.md says what each chat format's markup is and what becomes of markup that is broken.
@NullMarked
package millrace.engine.reply;

import org.jspecify.annotations.NullMarked;
