package receiver

import "net/http"

// Paths of the demo and of the end-to-end tests.
const (
	PathHealthy = "/healthy" // always 200
	PathFlaky   = "/flaky"   // fails three of ten requests
	PathDead    = "/dead"    // always 500
)

// DemoPaths are the three endpoints of "hookline dev --demo"; their secrets come with
// SetSecrets once the endpoints exist.
func DemoPaths() map[string]Path {
	return map[string]Path{
		PathHealthy: {Behaviour: Healthy()},
		PathFlaky:   {Behaviour: FailShare(0.3, http.StatusServiceUnavailable)},
		PathDead:    {Behaviour: Always(http.StatusInternalServerError)},
	}
}
