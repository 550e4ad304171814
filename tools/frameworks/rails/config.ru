# A Rails application, served by Puma. Its routes end in (.:format), as all Rails routes do.
require "rails"
require "action_controller/railtie"

class Application < Rails::Application
  config.root = __dir__
  config.api_only = true # without Rack::MethodOverride
  config.eager_load = true
  config.hosts.clear
  config.logger = Logger.new(nil)
  config.secret_key_base = "of a test"
  config.cache_store = :null_store

  routes.append do
    constraints(host: "admin.example.com") do
      root "handlers#admin"
      match "*any", to: "handlers#admin", via: :all
    end
    post "/login", to: "handlers#login"
    get "/things", to: "handlers#things"
    get "/token", to: "handlers#token"
    # format: false is needed as described in docs/configuration.md: a policy divides its count by
    # the id, and the limit of a tier applies to every path, even one that is skipped because of its
    # ending.
    get "/x", to: "handlers#x", format: false
    get "/items/:id", to: "handlers#items", format: false
    get "/keyed", to: "handlers#keyed"
  end
end

class HandlersController < ActionController::API
  %w[admin login things token x].each { |handler| define_method(handler) { ran handler } }

  def items = ran("items #{ERB::Util.url_encode(params[:id])}")

  def keyed = ran("keyed #{ERB::Util.url_encode(request.headers["X-API-Key"])}")

  private

  def ran(handler)
    response.set_header("Ran", handler)
    render plain: "ran #{handler}"
  end
end

Rails.application.initialize!
run Rails.application
