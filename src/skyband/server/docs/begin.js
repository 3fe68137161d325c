// The page's beginning has a file of its own, so that the content security policy need not allow scripts inside pages.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null });
