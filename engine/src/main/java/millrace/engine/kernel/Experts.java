package millrace.engine.kernel;

import java.util.List;

/// One matrix of each expert of a layer, in the experts' order, all of one shape, which may be in
/// several formats: what a backend may read as one table. Known by its identity.
public final class Experts {
    private final List<Matrix> matrices;

    public Experts(List<Matrix> matrices) {
        this.matrices = List.copyOf(matrices);
        Matrix first = this.matrices.getFirst();
        for (Matrix each : this.matrices) {
            if (each.rows() != first.rows() || each.cols() != first.cols()) {
                throw new IllegalArgumentException("experts: " + first + " beside " + each);
            }
        }
    }

    public int count() {
        return matrices.size();
    }

    public Matrix get(int expert) {
        return matrices.get(expert);
    }

    /// Rows of each matrix.
    public int rows() {
        return matrices.getFirst().rows();
    }

    /// Columns of each matrix.
    public int cols() {
        return matrices.getFirst().cols();
    }
}
