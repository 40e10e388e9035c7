/// What is said: the records on the topics, generated from `src/main/avro`, and their catalogue [Schemas].
///
/// Not null-marked: a generated accessor of a field whose type allows null returns null, and only the schema says so.
package millrace.schemas;
