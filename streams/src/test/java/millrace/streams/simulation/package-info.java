/// The stream layer under a broker, a clock and an engine that do what one seed says.
package millrace.streams.simulation;
