// The operator of Websites: a manager with one controller and one validating webhook.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	webv1 "example.com/websites/api/v1"
	"example.com/websites/internal/controller"
	webhookv1 "example.com/websites/internal/webhook/v1"
)

func main() {
	var metricsAddr, probeAddr, pprofAddr, webhookCertPath string
	var enableLeaderElection, secureMetrics bool
	var webhookPort int
	flag.StringVar(&metricsAddr, "metrics-bind-address", "0", "The address of the metrics endpoint; 0 for none.")
	flag.BoolVar(&secureMetrics, "metrics-secure", true, "Serve metrics via HTTPS, to authorized readers only.")
	flag.StringVar(&probeAddr, "health-probe-bind-address", ":8081", "The address of the probe endpoint.")
	flag.StringVar(&pprofAddr, "pprof-bind-address", "0", "The address of net/http/pprof; 0 for none.")
	flag.BoolVar(&enableLeaderElection, "leader-elect", false, "Let only one of several managers be active.")
	flag.IntVar(&webhookPort, "webhook-port", 9443, "The port of the webhook server.")
	flag.StringVar(&webhookCertPath, "webhook-cert-path", "", "The folder of the webhook server's certificate.")
	logging := zap.Options{}
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	log := ctrl.Log.WithName("setup")

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(webv1.AddToScheme(scheme))
	metrics := metricsserver.Options{BindAddress: metricsAddr, SecureServing: secureMetrics}
	if secureMetrics {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metrics,
		WebhookServer:          webhook.NewServer(webhook.Options{Port: webhookPort, CertDir: webhookCertPath}),
		HealthProbeBindAddress: probeAddr,
		PprofBindAddress:       pprofAddr,
		LeaderElection:         enableLeaderElection,
		LeaderElectionID:       "websites.web.example.com",
	})
	if err != nil {
		log.Error(err, "unable to create the manager")
		os.Exit(1)
	}
	if err := (&controller.WebsiteReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		log.Error(err, "unable to create the controller")
		os.Exit(1)
	}
	if os.Getenv("ENABLE_WEBHOOKS") != "false" {
		if err := webhookv1.SetupWebsiteWebhookWithManager(mgr); err != nil {
			log.Error(err, "unable to create the webhook")
			os.Exit(1)
		}
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		log.Error(err, "unable to add the readiness check")
		os.Exit(1)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Error(err, "the manager ended")
		os.Exit(1)
	}
}
