package recipes_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-co-op/gocron/v2"
	"github.com/labstack/echo/v5"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lockmw/go/examples/recipes/echolock"
	"github.com/lockmw/go/examples/recipes/ginlock"
	"github.com/lockmw/go/examples/recipes/gocronlock"
	"github.com/lockmw/go/examples/recipes/grpclock"
	"github.com/lockmw/go/examples/recipes/grpconce"
	"github.com/lockmw/go/examples/recipes/webhook"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

func Example_gin() {
	locks := lockmw.NewLocal()
	createOrder := func(c *gin.Context) { c.Status(http.StatusCreated) }
	gin.SetMode(gin.TestMode)

	r := gin.New()
	perUser := ginlock.Wrap(httpmw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID"))))
	r.POST("/users/:userID/orders", perUser, createOrder)

	_, hold, _ := locks.Lock(context.Background(), lockmw.Key("user", "42")) // 42 orders elsewhere
	defer hold.Unlock()
	fmt.Println(order(r, "42").Code, order(r, "43").Code)
	// Output: 409 201
}

func Example_echo() {
	locks := lockmw.NewLocal()
	createOrder := func(c *echo.Context) error { return c.NoContent(http.StatusCreated) }

	e := echo.New()
	perUser := echolock.Wrap(httpmw.WithLock(locks, httpmw.By("user", httpmw.PathValue("userID"))))
	e.POST("/users/:userID/orders", createOrder, perUser)

	_, hold, _ := locks.Lock(context.Background(), lockmw.Key("user", "42"))
	defer hold.Unlock()
	fmt.Println(order(e, "42").Code, order(e, "43").Code)
	// Output: 409 201
}

func Example_ginOnce() {
	once := idempotency.New(lockmw.NewLocal())
	orders := 0
	createOrder := func(c *gin.Context) { orders++; c.JSON(http.StatusCreated, orders) }
	gin.SetMode(gin.TestMode)

	r := gin.New()
	r.Use(authenticateGin)
	repeat := ginlock.Wrap(httpmw.Idempotent(once, httpmw.Claim(caller), idempotency.Refuse))
	r.POST("/orders", repeat, createOrder)

	fmt.Println(orderOnce(r, "42", "a"), orderOnce(r, "42", "a"), orderOnce(r, "42", "b"), orderOnce(r, "43", "a"))
	// Output: 1 1 2 3
}

func Example_echoOnce() {
	once := idempotency.New(lockmw.NewLocal())
	orders := 0
	createOrder := func(c *echo.Context) error { orders++; return c.JSON(http.StatusCreated, orders) }

	e := echo.New()
	e.Use(authenticateEcho)
	repeat := echolock.Wrap(httpmw.Idempotent(once, httpmw.Claim(caller), idempotency.Refuse))
	e.POST("/orders", createOrder, repeat, echolock.AnswerErrors)

	fmt.Println(orderOnce(e, "42", "a"), orderOnce(e, "42", "a"), orderOnce(e, "42", "b"), orderOnce(e, "43", "a"))
	// Output: 1 1 2 3
}

func Example_grpcOnce() {
	once := idempotency.New(lockmw.NewLocal())

	interceptor := grpconce.Unary(once, caller, grpconce.Methods{
		pb.Health_Check_FullMethodName: idempotency.Refuse,
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticateCalls, interceptor))

	server.Stop()
	// Output:
}

func Example_webhook() {
	locks := lockmw.NewLocal()
	handleEvent := func(context.Context, []byte) error { return nil }

	mux := http.NewServeMux()
	once := idempotency.New(locks, idempotency.WithTTL(7*24*time.Hour)) // longer than the provider repeats events
	mux.Handle("POST /hooks/acme", checkSignature(webhook.Receive(once, "acme", "Acme-Event-Id", handleEvent)))

	fmt.Println(deliver(mux, "event-1").Code, deliver(mux, "event-1").Code)
	// Output: 204 204
}

func Example_grpc() {
	locks := lockmw.NewLocal()

	interceptor := grpclock.Unary(locks, grpclock.Keys{
		pb.Health_Check_FullMethodName: grpclock.For(lockmw.By("service", (*pb.HealthCheckRequest).GetService)),
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptor))

	server.Stop()
	// Output:
}

func Example_gocron() {
	locks := lockmw.NewLocal()
	ran := make(chan struct{}, 1)
	makeReport := func(context.Context, string) error { ran <- struct{}{}; return nil }
	schedule := func() error {
		s, err := gocron.NewScheduler(
			gocron.WithDistributedLocker(gocronlock.New(locks, lockmw.WithMinHold(30*time.Second))),
		)
		if err != nil {
			return err
		}
		_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(makeReport, "sales"), gocron.WithName("sales-report"),
			gocron.WithStartAt(gocron.WithStartImmediately()))
		if err != nil {
			return err
		}
		s.Start()
		<-ran
		return s.Shutdown()
	}
	fmt.Println(schedule())
	// Output: <nil>
}

func Example_gocronElector() {
	ctx, locks := context.Background(), lockmw.NewLocal()
	ran := make(chan struct{}, 1)
	schedule := func() error {
		elector := gocronlock.Elect(ctx, locks, "lead:cron")
		s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
		if err != nil {
			return err
		}
		defer elector.Close()
		_, err = s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
			select {
			case ran <- struct{}{}:
			default:
			}
		}))
		if err != nil {
			return err
		}
		s.Start()
		<-ran
		return s.Shutdown()
	}
	fmt.Println(schedule())
	// Output: <nil>
}

func Example_gocronWithTheLocksContext() {
	locks := lockmw.NewLocal()
	makeReport := func(ctx context.Context, of string) error {
		_, err := lockmw.Held(ctx, "job:sales-report")
		return err
	}

	report := lockmw.WithLock(locks, lockmw.Const[string]("job", "sales-report"), makeReport)
	task := gocron.NewTask(report, "sales") // a func(context.Context, string) error

	fmt.Println(task != nil, report(context.Background(), "sales"))
	// Output: true <nil>
}
