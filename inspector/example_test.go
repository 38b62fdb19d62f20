package inspector_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/lockmw"
)

// Mount the pages behind the authentication of your service. All users may view locks; one may release them by force.
func ExampleHandler() {
	server := miniredis.NewMiniRedis() // use your own server
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	insp, err := lockmw.NewInspector(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	page := inspector.Handler(insp,
		inspector.WithTraceURL("https://jaeger.example.com/trace/{trace_id}"),
		inspector.WithForceUnlock(func(r *http.Request) bool {
			user, _, _ := r.BasicAuth()
			return user == "oncall"
		}),
		inspector.WithOperator(func(r *http.Request) string {
			user, _, _ := r.BasicAuth() // checked by the middleware
			return user
		}))
	r := chi.NewRouter()
	r.With(middleware.BasicAuth("locks", map[string]string{"dev": "secret", "oncall": "other secret"})).
		Mount("/ops/locks", page)

	for _, user := range []string{"nobody", "dev"} {
		request := httptest.NewRequest(http.MethodGet, "/ops/locks/", nil)
		request.SetBasicAuth(user, "secret")
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, request)
		fmt.Println(user, answer.Code)
	}
	// Output:
	// nobody 401
	// dev 200
}
