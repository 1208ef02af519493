"""Why a pair has its score: the walks, the neighbours and the attributes behind it."""
