package millrace.engine.kernel;

/// How the experts of a row are chosen, see [Kernels#route].
///
/// @param experts experts to choose from, in `groups` contiguous groups of one size
/// @param perRow experts chosen for a row
/// @param groups 1 for none
/// @param keptGroups groups that stay eligible
/// @param normalize whether the chosen scores are divided by their sum
/// @param scaling factor of the weights
public record RouterSpec(int experts, int perRow, int groups, int keptGroups, boolean normalize, float scaling) {
    public RouterSpec {
        if (groups < 1 || experts < 1 || experts % groups != 0 || keptGroups < 1 || keptGroups > groups) {
            throw new IllegalArgumentException("router: " + experts + " experts in " + groups + ", keep " + keptGroups);
        }
        if (perRow < 1 || perRow > experts / groups * keptGroups) {
            throw new IllegalArgumentException(
                    "router: " + perRow + " of " + experts + " experts in " + groups + " groups, keep " + keptGroups);
        }
    }
}
