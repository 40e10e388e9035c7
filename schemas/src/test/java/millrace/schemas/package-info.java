/// Tests of what is said.
package millrace.schemas;
